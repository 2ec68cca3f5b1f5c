/* rfc3339.c - prints times by H. Hinnant's "chrono-compatible low-level date algorithms", and
   parses them with timegm(). */
#include "app/core/rfc3339.h"

#include <string.h>
#include <time.h>

#define DAY_S 86400

/* Turns days since 1970 into a date. gmtime_r() would be too slow, because it takes a lock of the C
   library, and each answer to a placed order has two times. */
static void civil_from_days(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    int64_t era, day_of_era, year_of_era, day_of_year, month_from_march;

    days += 719468;
    era = days / 146097;
    day_of_era = days - era * 146097;
    year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    month_from_march = (5 * day_of_year + 2) / 153;
    *ret_day = (int)(day_of_year - (153 * month_from_march + 2) / 5 + 1);
    *ret_month =
        (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    *ret_year = (int)(year_of_era + era * 400 + (*ret_month <= 2));
}

static void put_digits(char *to, int number, int width)
{
    for (int i = width - 1; i >= 0; i--, number /= 10)
        to[i] = (char)('0' + number % 10);
}

size_t rfc3339_print(int64_t us, char ret_text[RFC3339_BYTES])
{
    static const char form[] = "0000-00-00T00:00:00.000000Z";
    int64_t seconds = us / 1000000 - (us % 1000000 < 0);
    int64_t days = seconds / DAY_S - (seconds % DAY_S < 0);
    int second_of_day = (int)(seconds - days * DAY_S);
    int fraction_us = (int)(us - seconds * 1000000);
    int year, month, day;

    civil_from_days(days, &year, &month, &day);
    memcpy(ret_text, form, sizeof(form));
    put_digits(ret_text, year, 4);
    put_digits(ret_text + 5, month, 2);
    put_digits(ret_text + 8, day, 2);
    put_digits(ret_text + 11, second_of_day / 3600, 2);
    put_digits(ret_text + 14, second_of_day / 60 % 60, 2);
    put_digits(ret_text + 17, second_of_day % 60, 2);
    put_digits(ret_text + 20, fraction_us, 6);
    if (fraction_us != 0)
        return sizeof(form) - 1;
    ret_text[19] = 'Z';
    ret_text[20] = '\0';
    return 20;
}

/* -- parsing -- */

static int read_digits(const char *text, int width)
{
    int number = 0;

    for (int i = 0; i < width; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

/* Reads "2030-01-01T00:00:00". */
static bool read_seconds(const char *text, int64_t *ret_s)
{
    struct tm time = {.tm_year = read_digits(text, 4) - 1900,
                      .tm_mon = read_digits(text + 5, 2) - 1,
                      .tm_mday = read_digits(text + 8, 2),
                      .tm_hour = read_digits(text + 11, 2),
                      .tm_min = read_digits(text + 14, 2)};
    struct tm valid = time;
    int second = read_digits(text + 17, 2);

    /* timegm() normalises invalid fields, so an invalid day has changed the month, and an invalid
       minute has changed the hour. */
    *ret_s = timegm(&valid) + second;
    return text[4] == '-' && text[7] == '-' &&
           (text[10] == 'T' || text[10] == 't' || text[10] == ' ') && text[13] == ':' &&
           text[16] == ':' && time.tm_year > -1900 && valid.tm_mon == time.tm_mon &&
           valid.tm_hour == time.tm_hour && second >= 0 && second <= 60;
}

/* Reads a fraction such as ".5", or nothing, and moves `*at` to the first byte that follows. */
static bool take_fraction_us(const char **at, const char *end, int *ret_us)
{
    *ret_us = 0;
    if (**at != '.')
        return true;
    ++*at;
    for (int unit = 100000; *at < end && **at >= '0' && **at <= '9'; unit /= 10)
        *ret_us += (*(*at)++ - '0') * unit;
    return (*at)[-1] != '.';
}

/* Reads "Z" or "+08:00". */
static bool read_offset_s(const char *text, size_t len, int *ret_s)
{
    int hours, minutes;

    *ret_s = 0;
    if (len == 1)
        return *text == 'Z' || *text == 'z';
    if (len != 6 || (*text != '+' && *text != '-') || text[3] != ':')
        return false;
    hours = read_digits(text + 1, 2);
    minutes = read_digits(text + 4, 2);
    *ret_s = (hours * 3600 + minutes * 60) * (*text == '-' ? -1 : 1);
    return hours >= 0 && hours <= 23 && minutes >= 0 && minutes <= 59;
}

bool rfc3339_parse(const char *text, size_t len, int64_t *ret_us)
{
    const char *at = text + 19, *end = text + len;
    int fraction_us, offset_s;
    int64_t seconds;

    if (len < 20 || !read_seconds(text, &seconds) ||
        !take_fraction_us(&at, end, &fraction_us) ||
        !read_offset_s(at, (size_t)(end - at), &offset_s))
        return false;
    *ret_us = (seconds - offset_s) * 1000000 + fraction_us;
    return true;
}
