/*
 * Reads what a hub says: the begin of a session, the lines of its stream, releases. Another server may have the hub's
 * address, and may have recorded what the hub said once. So nothing counts that the hub has not signed for this node, this
 * session and this request; a line also has its number in the stream and its age. Of a line, the fields of its type are
 * taken, and no others.
 */
import type { KeyObject } from 'node:crypto'
import { Refusal } from '../../base/errors.js'
import { parseServerUrl } from '../../config/client-config.js'
import {
  hubKeyText,
  lineText,
  releaseText,
  sessionText,
  type Asked,
  type DesiredLine,
  type ReleaseDocument,
  type SessionAnswer,
  type SignedHubKey
} from '../../model/fleet-wire.js'
import { orderActions } from '../../model/rollout.js'
import { readReleaseDocument } from './release-document.js'
import { isSignedBy, publicKeyOf } from './signatures.js'

/** The key of the hub, as the node knows it. */
export interface KnownKey {
  readonly key: KeyObject
  /** The 32 bytes in base64. */
  readonly text: string
}

/** The key of the hub, and how it changes. */
export type Keyring = ReturnType<typeof createKeyring>

/** How long a line may have been on its way, and the share by which the clocks of two machines may differ. */
const lateAfterMs = 60_000
const clockShare = 1e-3
/** A seal is the last field of its line. */
const sealPattern = /^(.*),"seal":"([A-Za-z0-9+/]{86}==)"\}$/s
const maxAddresses = 100

/** Creates the key ring of a node. `learned` is called with a new key. Refuses (`unavailable`) a text that is no key. */
export function createKeyring(text: string, learned: (hubKey: string) => void) {
  let known = keyOf(text)

  /** Returns the key after a known one, if that has signed it. */
  function next({ text, key }: KnownKey, { hubKey, signature }: SignedHubKey): KnownKey | null {
    const isNext = hubKey !== text && isSignedBy(key, hubKeyText(hubKey), signature)
    return isNext ? keyOf(hubKey) : null
  }

  function trust(key: KnownKey): void {
    if (key.text === known.text) return
    known = key
    learned(key.text)
  }

  return {
    current: (): KeyObject => known.key,
    /** Takes the key after the current one. */
    take(given: SignedHubKey): void {
      const found = next(known, given)
      if (found === null) throw badLine('it names a key that the key before has not signed')
      trust(found)
    },
    /** Takes the answer to the begin of a session: its signature says that it is of this hub, and not recorded. */
    open(asked: Asked, { keys, signature }: SessionAnswer): void {
      let last = known
      for (const each of keys) last = next(last, each) ?? last
      if (!isSignedBy(last.key, sessionText(asked), signature)) throw notTheHub()
      trust(last)
    }
  }
}

/** Reads the answer to the begin of a session, as `sessionText` is signed. Refuses (`unavailable`) `wrong_hub`, `bad_answer`. */
export function readSession(
  value: unknown,
  { address, ...asked }: Omit<Asked, 'session'> & { address: string },
  keyring: Keyring
): string {
  const { session, keys, signature } = (value ?? {}) as Record<string, unknown>
  if (!isName(session)) throw notHub(address)
  if (signature === undefined) throw tooOld(address)
  if (!isText(signature, 100) || !Array.isArray(keys) || !keys.every(isKey)) throw notHub(address)
  keyring.open({ ...asked, session }, { session, keys, signature })
  return session
}

/**
 * Reads a release document. Refuses (`invalid`) `wrong_release` one that the hub has not signed for this request, or that
 * is not one.
 */
export function readRelease(
  { text, signature }: { text: string; signature: unknown },
  asked: Asked,
  keyring: Keyring
): ReleaseDocument {
  const isSigned = isText(signature, 100) && isSignedBy(keyring.current(), releaseText(asked, text), signature)
  if (isSigned) return readReleaseDocument(text)
  throw new Refusal('invalid', 'wrong_release', 'Cannot use the release from the hub: its signature is not valid')
}

/**
 * Creates the reader of a stream. It returns the line that a text contains; null: one that is done with, or of a kind that
 * this version does not know. Refuses (`unavailable`) `bad_line`: the stream must end.
 */
export function createStreamReader({
  asked,
  keyring,
  nowMs
}: {
  asked: Asked
  keyring: Keyring
  nowMs(): number
}): (text: string) => DesiredLine | null {
  let count = 0
  /** The clocks at the first line: of this machine, and of the hub. */
  let first: { own: number; hub: number } | null = null

  function refuseLate(ms: unknown): void {
    if (!isCount(ms)) throw badLine('"ms" is missing or of another type')
    first ??= { own: nowMs(), hub: ms }
    const passed = nowMs() - first.own
    const lateMs = passed - (ms - first.hub)
    if (lateMs > lateAfterMs + passed * clockShare) throw badLine(`it was ${Math.round(lateMs / 1000)} s on its way`)
  }

  return text => {
    const [, before, seal] = sealPattern.exec(text) ?? []
    if (before === undefined || seal === undefined) throw badLine('it is not signed')
    const json = `${before}}`
    if (!isSignedBy(keyring.current(), lineText(asked, count + 1, json), seal)) throw notGenuine(json, count + 1)
    count++
    const value = parse(json)
    refuseLate(value['ms'])
    const line = lineOf(value)
    if (line?.type !== 'key') return line
    keyring.take(line)
    return null
  }
}

type Check = (value: unknown) => boolean

const isName = (value: unknown): value is string => typeof value === 'string' && /^[^\s\p{C}]{1,200}$/u.test(value)
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const isAction: Check = value => orderActions.includes(value as never)
const isAddresses: Check = value => Array.isArray(value) && value.length <= maxAddresses && value.every(isAddress)
const isKey = (value: unknown): value is SignedHubKey => {
  const { hubKey, signature } = (value ?? {}) as Record<string, unknown>
  return isText(hubKey, 100) && isText(signature, 100)
}

function isText(value: unknown, most: number): value is string {
  return typeof value === 'string' && value.length <= most
}

function isAddress(value: unknown): boolean {
  return isText(value, 2000) && parseServerUrl(value) !== null
}

const isAnyText: Check = value => typeof value === 'string'

/** The fields of each type of line. The stream limits the length of a line. */
const fieldsOf: {
  [T in DesiredLine['type']]: Record<Exclude<keyof Extract<DesiredLine, { type: T }>, 'type'>, Check>
} = {
  welcome: { version: isName, heartbeatMs: isCount, hubs: isAddresses },
  order: {
    epoch: isName,
    projectId: isName,
    rolloutId: isName,
    number: isCount,
    attempt: isCount,
    action: isAction,
    deployId: isName,
    treeSha256: isName,
    archiveSha256: isName,
    archiveBytes: isCount
  },
  unplaced: { projectId: isName },
  key: { hubKey: isAnyText, signature: isAnyText },
  relay: { id: isName, request: isAnyText },
  input: { id: isName, number: isCount, bytes: isAnyText },
  heartbeat: {}
}

function lineOf(value: Record<string, unknown>): DesiredLine | null {
  const { type } = value
  if (typeof type !== 'string' || !Object.hasOwn(fieldsOf, type)) return null
  const line: Record<string, unknown> = { type }
  for (const [name, isRight] of Object.entries<Check>(fieldsOf[type as DesiredLine['type']])) {
    // What a later hub demands, this version cannot do.
    if (isRight === isAction && typeof value[name] === 'string' && !isAction(value[name])) return null
    if (!isRight(value[name])) throw badLine(`"${name}" of "${type}" is missing or of another type`)
    line[name] = value[name]
  }
  return line as unknown as DesiredLine
}

function parse(json: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(json)
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>
  } catch {
    // Refused below.
  }
  throw badLine('it is not a JSON object')
}

function keyOf(text: string): KnownKey {
  const key = publicKeyOf(text)
  if (key !== null) return { key, text }
  const sentence = 'The key of the hub in "agent.json" is not an Ed25519 key. Enroll again'
  throw new Refusal('unavailable', 'agent_identity', sentence)
}

/** Says what is wrong with a line whose seal does not fit its place. Its number is only a hint. */
function notGenuine(json: string, expected: number): Refusal {
  const given = /,"line":(\d{1,16}),"ms":\d+\}$/.exec(json)?.[1]
  return given === undefined || Number(given) === expected
    ? badLine('the hub has not signed it for this session')
    : badLine(`it has the number ${given} instead of ${expected}`)
}

function badLine(why: string): Refusal {
  const sentence = `Refused a line of the hub: ${why}. Somebody between this node and the hub may be changing lines`
  return new Refusal('unavailable', 'bad_line', sentence)
}

function notHub(address: string): Refusal {
  return new Refusal('unavailable', 'bad_answer', `${address} did not answer like a hub. Check the address`)
}

function tooOld(address: string): Refusal {
  const sentence = `${address} does not prove that it is the hub of this node: it runs an older svc, or is another server. Upgrade svc on the hub`
  return new Refusal('unavailable', 'wrong_hub', sentence)
}

function notTheHub(): Refusal {
  const sentence =
    'The server at this address does not have the key of the hub that this node belongs to. Check the address. If the hub was restored from a backup of before "svc keys rotate", enroll this machine again'
  return new Refusal('unavailable', 'wrong_hub', sentence)
}
