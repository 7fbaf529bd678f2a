/*
 * Reads what a node answers to a relayed request. The node may be taken over, and a browser shows the answer in the origin
 * of the hub. So nothing of it passes as it is.
 */
import { Refusal } from '../../base/errors.js'
import { commonHeaders, pageTypes, readAnswerHead, type AnswerRules } from '../../http/outgoing/answer-head.js'
import type { RelayedHead, RelayedRequest } from '../../model/fleet-wire.js'
import type { TerminalMessage } from '../../model/terminal.js'

/** The head of an answer as the hub sends it to the client. */
export interface ReadHead extends RelayedHead {
  /** Whether the answer is a stream that continues until somebody stops it. */
  isLasting: boolean
  /** Maximum size of the body in bytes. */
  maxBytes: number
}

/** Maximum size of the first line of an answer, in bytes. */
const maxHeadBytes = 16 * 1024
/** Maximum size of an answer that a page reads as a whole, in bytes. */
const maxJsonBytes = 64 * 1024 * 1024
/** What a node may answer. It cannot sign anybody out (401) or send a browser elsewhere (3xx). */
const rules: AnswerRules = {
  statuses: new Set([200, 206, 304, 400, 403, 404, 408, 409, 410, 412, 413, 416, 429, 502, 503, 504]),
  types: pageTypes,
  headers: commonHeaders,
  refuse: nodeAnswer
}
const newline = 10

/**
 * Reads the head of an answer from its first bytes. Returns it and the bytes after it. Refuses 502 `node_answer` for
 * everything that is no answer of a page of svc.
 */
export function readNodeHead(
  bytes: Buffer,
  asked: Pick<RelayedRequest, 'method' | 'headers' | 'path'>
): { head: ReadHead; rest: Buffer } {
  const at = bytes.subarray(0, maxHeadBytes).indexOf(newline)
  if (at < 0) throw nodeAnswer('its head is incomplete or too long')
  const value = parse(bytes.subarray(0, at).toString('utf8'))
  const { status, headers } = (value ?? {}) as Partial<RelayedHead>
  if (typeof status !== 'number' || typeof headers !== 'object' || headers === null || Array.isArray(headers)) {
    throw nodeAnswer('its head is malformed')
  }
  if (status === 500 || status === 501) throw nodeAnswer('it reports an internal error, and its log has the cause')
  const { isFile, isLasting, ...head } = readAnswerHead({ status, headers }, asked, rules)
  const maxBytes = isFile || isLasting ? Infinity : maxJsonBytes
  return { head: { ...head, isLasting, maxBytes }, rest: bytes.subarray(at + 1) }
}

/** Returns the message of a terminal that a line of a node is, or how it ends. Refuses 502 `node_answer`. */
export function readTerminalLine(line: string): { message: string } | { code: number; reason: string } {
  const value = (parse(line) ?? {}) as Record<string, unknown>
  const { type, code, reason, error } = value
  if (type === 'refused' && typeof error === 'string') return { code: closeCodes.failed, reason: error }
  if (type === 'close' && typeof reason === 'string' && isCloseCode(code)) return { code, reason }
  const fields = Object.hasOwn(messages, String(type)) ? messages[type as TerminalMessage['type']] : undefined
  if (fields === undefined) throw nodeAnswer('it is not a message of a terminal')
  const message: Record<string, unknown> = { type }
  for (const [name, kinds] of Object.entries(fields)) {
    const given = value[name]
    if (!kinds.includes(given === null ? 'null' : typeof given)) throw nodeAnswer('it is not a message of a terminal')
    message[name] = given
  }
  return { message: JSON.stringify(message) }
}

/** Returns the refusal for an answer of a node that the hub does not pass on. */
export function nodeAnswer(why: string): Refusal {
  return new Refusal('bad_gateway', 'node_answer', `Cannot pass on the answer of the node: ${why}. Look at the node`)
}

/** Codes with which the hub closes a terminal (RFC 6455 §7.4). */
export const closeCodes = { left: 1001, failed: 1011 }

function isCloseCode(code: unknown): code is number {
  return Number.isInteger(code) && ([1000, 1001, 1003, 1011].includes(code as number) || /^4\d{3}$/.test(String(code)))
}

/** The messages of a terminal, and the types of their fields. */
const messages: Record<TerminalMessage['type'], Record<string, readonly string[]>> = {
  ready: {
    sessionId: ['string'],
    pid: ['number'],
    shell: ['string'],
    cwd: ['string'],
    projectId: ['string', 'null'],
    cols: ['number'],
    rows: ['number'],
    offset: ['number'],
    modes: ['string', 'undefined'],
    inputOffset: ['number', 'undefined']
  },
  data: { data: ['string'] },
  taken: { bytes: ['number'] },
  exit: { exitCode: ['number', 'null'], signal: ['string', 'null'] },
  error: { reason: ['string'], message: ['string'] },
  pong: { ts: ['number'] }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw nodeAnswer('it is not JSON')
  }
}
