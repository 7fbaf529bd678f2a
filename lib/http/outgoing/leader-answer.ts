/*
 * Reads what the leader of a cluster answers to a request that this hub passed on. Its machine may be taken over, and the
 * client trusts this hub: a browser shows the answer in this hub's origin. Only what the API answers passes.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '../../base/refusal.js'
import { releaseSignatureHeader } from '../../model/fleet-wire.js'
import { setCookie } from '../core/cookie.js'
import { statusOf, type Headers } from '../core/reply.js'
import { acceptHead, acceptOf, tokensOf } from '../websocket/handshake.js'
import { commonHeaders, pageTypes, readAnswerHead, type AnswerHead, type AnswerRules } from './answer-head.js'

/** The request that the leader answers. */
export interface AskedLeader {
  headers: IncomingHttpHeaders
  /** Path as in the request, with the base of this hub. */
  rawPath: string
  /** Path below the base. */
  belowPath: string
  method: string
}

/** The head of an answer of the leader. */
export interface LeaderHead {
  statusCode?: number | undefined
  headers: IncomingHttpHeaders
}

const count = /^\d{1,16}$/
const signature64 = /^[A-Za-z0-9+/]{1,100}={0,2}$/
const metricsType = 'text/plain; version=0.0.4; charset=utf-8'
const rules: Omit<AnswerRules, 'refuse'> = {
  // A redirection would lead the client, and its token, elsewhere.
  statuses: new Set([200, 201, 202, 204, 206, 304, 500, ...Object.values(statusOf), 410, 416, 504]),
  types: new Map([...pageTypes, [metricsType, metricsType], ['text/plain', 'text/plain; charset=utf-8']]),
  fileTypes: /^(?:application\/(?:zip|gzip)|image\/(?:png|jpeg|gif|webp|avif|bmp|x-icon|svg\+xml))$/,
  headers: {
    ...commonHeaders,
    allow: /^[A-Z]{1,16}(?:, [A-Z]{1,16}){0,8}$/,
    'cache-control': /^(?:no-store|private, no-cache)$/,
    'content-encoding': /^gzip$/,
    'content-length': count,
    'sec-websocket-version': /^13$/,
    [releaseSignatureHeader]: signature64,
    vary: /^accept-encoding$/,
    'www-authenticate': /^Bearer$/,
    'x-svc-deploy-id': /^[\w-]{1,100}$/,
    'x-svc-deploy-url': /^https?:\/\/[\x21-\x7e]{1,1000}$/,
    'x-svc-expected-bytes': count
  }
}

/** Reads the head of an answer. Refuses 502 `leader_answer` for what no route answers. */
export function readLeaderHead({ statusCode = 0, headers }: LeaderHead, asked: AskedLeader, name: string): AnswerHead {
  const refuse = (why: string): Refusal => leaderAnswer(why, asked, name)
  const given = { status: statusCode, headers }
  const head = readAnswerHead(given, { path: asked.belowPath, headers: asked.headers }, { ...rules, refuse })
  const cookie = cookieOf(headers['set-cookie'], asked)
  return cookie === undefined ? head : { ...head, headers: { ...head.headers, 'set-cookie': cookie } }
}

/**
 * Returns the head that turns the client's connection into a WebSocket, as this hub writes it. Refuses 502 `leader_answer`
 * if the leader has not agreed to the client's own handshake.
 */
export function readLeaderUpgrade({ statusCode, headers }: LeaderHead, asked: AskedLeader, name: string): string {
  const key = asked.headers['sec-websocket-key'] ?? ''
  const protocol = headers['sec-websocket-protocol'] ?? ''
  const isOffered = protocol === '' || tokensOf(asked.headers['sec-websocket-protocol'], false).includes(protocol)
  if (
    statusCode !== 101 ||
    headers['sec-websocket-accept'] !== acceptOf(key) ||
    headers['sec-websocket-extensions'] !== undefined ||
    !isOffered
  ) {
    throw leaderAnswer('it does not agree to the WebSocket that was asked for', asked, name)
  }
  return acceptHead(key, protocol)
}

/** Returns the refusal for an answer of the leader that this hub does not pass on. */
export function leaderAnswer(why: string, { method }: Pick<AskedLeader, 'method'>, name: string): Refusal {
  const isRead = method === 'GET' || method === 'HEAD'
  const change = isRead ? '' : '. The change may or may not have been made'
  const sentence = `Cannot pass on the answer of the leader of the cluster, "${name}": ${why}. Look at that hub and what is between${change}`
  return new Refusal('bad_gateway', 'leader_answer', sentence)
}

const sessionCookie =
  /^((__Secure-)?svc_session_[\w-]{1,64})=([\w-]{0,100}); Path=\/[^;]{0,200}(?:; Max-Age=(\d{1,10}))?; HttpOnly; SameSite=Strict(; Secure)?$/

/** Returns the only cookie that the API sets, that of a session, for the base of this hub. */
function cookieOf(given: readonly string[] | undefined, asked: AskedLeader): Headers[string] | undefined {
  const [only = '', ...more] = given ?? []
  const found = more.length === 0 ? sessionCookie.exec(only) : null
  if (found === null) return undefined
  const [, name = '', prefix, value = '', age, secure] = found
  if ((prefix === undefined) !== (secure === undefined)) return undefined
  const base = asked.rawPath.slice(0, asked.rawPath.length - asked.belowPath.length)
  const maxAgeSeconds = age === undefined ? null : Number(age)
  return setCookie({ name, value, path: `${base}/`, isSecure: secure !== undefined, maxAgeSeconds })
}
