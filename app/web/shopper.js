/* shopper.js - the shopper who is signed in. After a change the document gets the event
   "shopper". */
import {claims, devToken} from '/web/common.js';

const TOKEN = 'seckill.token';

/** isDev: the service issues tokens to anybody. */
export const shopper = {token: null, id: null, isDev: false};

function set(token, id) {
    shopper.token = token;
    shopper.id = id;
    document.dispatchEvent(new Event('shopper'));
}

/** Returns false if this is not a token. */
export function signIn(token) {
    const user = claims(token);
    if (!user?.sub)
        return false;
    localStorage.setItem(TOKEN, token);
    set(token, user.sub);
    return true;
}

export function signOut() {
    localStorage.removeItem(TOKEN);
    set(null, null);
}

export async function signInAsAnyone() {
    const token = await devToken('shopper', 100000 + Math.floor(Math.random() * 900000));
    shopper.isDev = token !== null;
    if (token !== null)
        signIn(token);
}

/** Sign in with the token of the last visit, or, for development, as anyone. */
export async function resume() {
    const kept = localStorage.getItem(TOKEN);
    const user = kept === null ? null : claims(kept);
    shopper.isDev = (await devToken('shopper', 1).catch(() => null)) !== null;
    if (user !== null && user.exp * 1000 > Date.now() + 60000)
        signIn(kept);
    else if (shopper.isDev)
        await signInAsAnyone();
    else
        set(null, null);
}
