/* i18n.js - every word of the pages in English and Chinese, and how numbers are told. */

const all = {
    en: {
        shop: 'Flash sale', skip: 'Skip to the vouchers', vouchers: 'Vouchers',
        orders: 'My orders', dashboard: 'Dashboard', contract: 'API',
        shopper: 'Shopper {id}', another: 'Another shopper', signout: 'Sign out',
        signin: 'Sign in', signin_why: 'To buy, paste the token that your login gave you.',
        token: 'Token', token_bad: 'This is not a valid token.',
        no_vouchers: 'There is nothing on sale just now.', no_orders: 'No orders yet.',
        upcoming: 'Soon', open: 'On sale', ended: 'Over', sold_out: 'Sold out',
        worth: 'worth {money}', off: '{percent} off', limit: 'up to {n} each',
        left: '{left} of {total} left', opens_in: 'opens in', ends_in: 'ends in',
        opens_at: 'Opens {time}', ended_at: 'ended {time}', days: '{n} d {rest}',
        buy: 'Buy for {money}', buying: 'Placing your order …',
        told_open: 'On sale now.',
        placed: 'It is yours. Order {id}: pay within {time}.',
        repeated: 'It is yours already. Order {id}.',
        say_sold_out: 'Sold out. Should stock come back, this opens again.',
        already_ordered: 'You have this already: order {id}.',
        already_limit: 'You have as many of these as one may have: order {id}.',
        not_started: 'Not yet: it opens in {time}.',
        sale_ended: 'This sale is over.',
        order_in_progress: 'Another order of yours is under way. Trying again in {s} s.',
        busy: 'Many are here just now. Trying again in {s} s ({n} of {of}).',
        look_up: 'It is not known yet whether that worked. Asking again in {s} s.',
        gave_up: 'Still busy. Nothing is lost: press again, and it counts once.',
        unauthenticated: 'You are signed out. Sign in, then press again.',
        forbidden: 'This token may not buy.', ticket_required: 'The ticket was not accepted. Press again.',
        solving: 'One moment: your device earns its place in the line …',
        failed: 'That did not work: {detail}',
        offline: 'The shop cannot be reached. What you see may be old.',
        unpaid: 'To be paid', paid: 'Paid', redeemed: 'Used', cancelled: 'Cancelled',
        expired: 'Expired', refunded: 'Refunded',
        order: 'Order {id}', pay_within: '{time} left to pay', time_over: 'time is over',
        pay: 'Pay (demo)', cancel_short: 'Cancel', cancel: 'Cancel the order', keep: 'Keep it',
        sure: 'Cancel this order?', sure_what: '{title}: it goes back on sale for others.',
        told_paid: 'Order {id} is paid.', told_cancelled: 'Order {id} is cancelled.',
        wrong_state: 'The order has changed meanwhile.',
        voucher_n: 'Voucher {id}',
    },
    zh: {
        shop: '限时秒杀', skip: '跳到优惠券', vouchers: '优惠券', orders: '我的订单',
        dashboard: '控制台', contract: 'API', shopper: '用户 {id}', another: '换一个用户',
        signout: '退出', signin: '登录', signin_why: '购买前请粘贴登录系统发给你的令牌。',
        token: '令牌', token_bad: '令牌无效。', no_vouchers: '目前没有在售的优惠券。',
        no_orders: '还没有订单。', upcoming: '即将开始', open: '抢购中', ended: '已结束',
        sold_out: '已抢光', worth: '面值 {money}', off: '立省 {percent}', limit: '每人限 {n} 张',
        left: '剩余 {left} / {total}', opens_in: '距开始', ends_in: '距结束',
        opens_at: '{time} 开始', ended_at: '{time} 结束', days: '{n} 天 {rest}',
        buy: '{money} 立即抢购', buying: '正在下单……',
        told_open: '现在开抢。',
        placed: '抢到了！订单 {id}，请在 {time} 内付款。', repeated: '已经抢到了。订单 {id}。',
        say_sold_out: '已抢光。若有库存返还，将重新开放。',
        already_ordered: '你已经抢到了：订单 {id}。', already_limit: '已达到限购数量：订单 {id}。',
        not_started: '还没开始，{time} 后开抢。', sale_ended: '活动已结束。',
        order_in_progress: '你的另一个请求正在处理，{s} 秒后重试。',
        busy: '现在人很多，{s} 秒后重试（第 {n} 次，共 {of} 次）。',
        look_up: '暂时不知道是否成功，{s} 秒后查询。',
        gave_up: '仍然繁忙。不会重复下单，请再按一次。',
        unauthenticated: '登录已失效，请登录后再按一次。', forbidden: '该令牌不能购买。',
        ticket_required: '购买凭证未被接受，请再按一次。', solving: '请稍候，正在排队验证……',
        failed: '未成功：{detail}', offline: '暂时连不上商店，页面内容可能不是最新的。',
        unpaid: '待付款', paid: '已付款', redeemed: '已使用', cancelled: '已取消',
        expired: '已过期', refunded: '已退款', order: '订单 {id}', pay_within: '剩余付款时间 {time}',
        time_over: '已超时', pay: '付款（演示）', cancel_short: '取消', cancel: '取消订单',
        keep: '保留', sure: '取消这个订单？', sure_what: '{title}：取消后将重新开放给其他人。',
        told_paid: '订单 {id} 已付款。', told_cancelled: '订单 {id} 已取消。',
        wrong_state: '订单状态已变化。', voucher_n: '优惠券 {id}',
    },
};

const asked = (navigator.languages ?? [navigator.language]).map((each) => each.toLowerCase().split('-')[0]);
export const language = asked.find((each) => each in all) ?? 'en';
const words = all[language];

/** The words for `name`, each {hole} filled. */
export function say(name, holes = {}) {
    return words[name].replace(/\{(\w+)\}/g, (_, hole) => holes[hole]);
}

export function has(name) {
    return name in words;
}

/** Put the words into everything that names some by data-t. */
export function translate(root = document) {
    document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en';
    for (const element of root.querySelectorAll('[data-t]'))
        element.textContent = say(element.dataset.t);
}

const moneyFormat = new Intl.NumberFormat(language, {
    style: 'currency', currency: 'CNY', currencyDisplay: 'narrowSymbol', trailingZeroDisplay: 'stripIfInteger',
});
const numberFormat = new Intl.NumberFormat(language);
const percentFormat = new Intl.NumberFormat(language, {style: 'percent'});
const timeFormat = new Intl.DateTimeFormat(language, {
    month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit',
});

export const money = (cents) => moneyFormat.format(cents / 100);
export const number = (value) => numberFormat.format(value);
export const percent = (part) => percentFormat.format(part);
export const moment = (ms) => timeFormat.format(ms);

/** "04:05", "1:04:05", "3 d 1:04:05"; the second that has begun counts. */
export function duration(ms) {
    const total = Math.max(0, Math.ceil(ms / 1000));
    const two = (value) => String(value).padStart(2, '0');
    const minutes = `${two(Math.floor(total / 60) % 60)}:${two(total % 60)}`;
    const hours = Math.floor(total / 3600) % 24;
    const days = Math.floor(total / 86400);
    if (days > 0)
        return say('days', {n: days, rest: `${hours}:${minutes}`});
    return hours > 0 ? `${hours}:${minutes}` : minutes;
}
