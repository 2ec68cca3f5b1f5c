/* rfc3339.c - days to civil dates by H. Hinnant's "chrono-compatible low-level date
 * algorithms", and back by timegm(). */
#include "app/core/rfc3339.h"

#include <time.h>

#define DAY_S 86400

/* Without a lock of the C library: each answer to a placed order prints two times. */
static void civil_from_days(int64_t days, int *ret_year, int *ret_month, int *ret_day)
{
    int64_t era, day_of_era, year_of_era, day_of_year, month_from_march;

    days += 719468;
    era = (days >= 0 ? days : days - 146096) / 146097;
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

static char *put_digits(char *to, int number, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        to[i] = (char)('0' + number % 10);
        number /= 10;
    }
    return to + width;
}

size_t rfc3339_print(int64_t us, char ret_text[RFC3339_BYTES])
{
    int64_t seconds = us / 1000000 - (us % 1000000 < 0);
    int64_t days = seconds / DAY_S - (seconds % DAY_S < 0);
    int second_of_day = (int)(seconds - days * DAY_S);
    int fraction_us = (int)(us - seconds * 1000000);
    int year, month, day;
    char *to = ret_text;

    civil_from_days(days, &year, &month, &day);
    to = put_digits(to, year, 4);
    *to++ = '-';
    to = put_digits(to, month, 2);
    *to++ = '-';
    to = put_digits(to, day, 2);
    *to++ = 'T';
    to = put_digits(to, second_of_day / 3600, 2);
    *to++ = ':';
    to = put_digits(to, second_of_day / 60 % 60, 2);
    *to++ = ':';
    to = put_digits(to, second_of_day % 60, 2);
    if (fraction_us != 0) {
        *to++ = '.';
        to = put_digits(to, fraction_us, 6);
    }
    *to++ = 'Z';
    *to = '\0';
    return (size_t)(to - ret_text);
}

/* -- parsing: the cursor becomes bad at the first unexpected character -- */

struct cursor {
    const char *at, *end;
    bool is_bad;
};

static int take_digits(struct cursor *cursor, int width, int min, int max)
{
    int number = 0;

    for (int i = 0; i < width; i++) {
        if (cursor->at == cursor->end || *cursor->at < '0' || *cursor->at > '9') {
            cursor->is_bad = true;
            return min;
        }
        number = number * 10 + (*cursor->at++ - '0');
    }
    if (number < min || number > max)
        cursor->is_bad = true;
    return number;
}

static bool take_char(struct cursor *cursor, char upper, char lower)
{
    if (cursor->at == cursor->end || (*cursor->at != upper && *cursor->at != lower))
        return false;
    cursor->at++;
    return true;
}

static void demand_char(struct cursor *cursor, char c)
{
    if (!take_char(cursor, c, c))
        cursor->is_bad = true;
}

static int take_fraction_us(struct cursor *cursor)
{
    int us = 0, unit = 100000;

    if (!take_char(cursor, '.', '.'))
        return 0;
    us = take_digits(cursor, 1, 0, 9) * unit;
    while (cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9') {
        unit /= 10;
        us += (*cursor->at++ - '0') * unit;
    }
    return us;
}

static int take_offset_s(struct cursor *cursor)
{
    int sign = 1, offset_s;

    if (take_char(cursor, 'Z', 'z'))
        return 0;
    if (take_char(cursor, '-', '-'))
        sign = -1;
    else
        demand_char(cursor, '+');
    offset_s = take_digits(cursor, 2, 0, 23) * 3600;
    demand_char(cursor, ':');
    return sign * (offset_s + take_digits(cursor, 2, 0, 59) * 60);
}

bool rfc3339_parse(const char *text, size_t len, int64_t *ret_us)
{
    struct cursor cursor = {text, text + len, false};
    struct tm time = {0};
    int day, second, fraction_us, offset_s;
    int64_t minute_s;

    time.tm_year = take_digits(&cursor, 4, 1, 9999) - 1900;
    demand_char(&cursor, '-');
    time.tm_mon = take_digits(&cursor, 2, 1, 12) - 1;
    demand_char(&cursor, '-');
    time.tm_mday = day = take_digits(&cursor, 2, 1, 31);
    if (!take_char(&cursor, 'T', 't'))
        demand_char(&cursor, ' ');
    time.tm_hour = take_digits(&cursor, 2, 0, 23);
    demand_char(&cursor, ':');
    time.tm_min = take_digits(&cursor, 2, 0, 59);
    demand_char(&cursor, ':');
    second = take_digits(&cursor, 2, 0, 60);
    fraction_us = take_fraction_us(&cursor);
    offset_s = take_offset_s(&cursor);
    minute_s = timegm(&time); /* changes a day that the month does not have */
    if (cursor.is_bad || cursor.at != cursor.end || time.tm_mday != day)
        return false;
    *ret_us = (minute_s + second - offset_s) * 1000000 + fraction_us;
    return true;
}
