import type { Client } from './client.js'
import { adminToken } from './server.js'

export interface SignedInSession {
  id: string
  expiresAt: string
  /** The header Cookie of the browser. */
  cookie: string
  /** The whole header Set-Cookie. */
  setCookie: string
  csrf: string
  /** The headers that a page of the panel sends with a change. */
  headers: { cookie: string; 'x-svc-csrf': string }
}

/** Signs in and begins a browser session. `headers` are those of the login, for example of a proxy. */
export async function signIn(
  client: Pick<Client, 'post'>,
  {
    token = adminToken,
    remember = true,
    headers = {}
  }: { token?: string; remember?: boolean; headers?: Record<string, string> } = {}
): Promise<SignedInSession> {
  const reply = await client.post('/api/auth/login', { token, session: true, remember }, headers)
  const setCookie = reply.headers['set-cookie']?.[0]
  if (reply.status !== 200 || setCookie === undefined) throw new Error(`The sign-in failed: ${reply.text}`)
  const cookie = setCookie.slice(0, setCookie.indexOf(';'))
  const { id, expiresAt, csrf } = reply.body.session
  return { id, expiresAt, cookie, setCookie, csrf, headers: { cookie, 'x-svc-csrf': csrf } }
}

/** Returns `fetch` with the cookie of this browser. */
export function withCookie(cookie: string): typeof fetch {
  return (input, init = {}) => {
    const headers = new Headers(init.headers)
    headers.set('cookie', cookie)
    return fetch(input, { ...init, headers })
  }
}
