/*
 * Reads the text of a release document: the fields that this version knows, with the rules that the API of the hub has for
 * them. A later hub may add fields that inform: they are dropped. A setting, a key of the policy or a wish of the client
 * that this version does not know demands something, so the release is refused instead of deployed without it.
 */

import { maxSignatureBytes, maxSignatures, maxStatementBytes } from '../../model/statement.js'
import { createPublicKey, type KeyObject, sign, verify } from 'node:crypto'
import {
  checked,
  escapedLine,
  flag,
  integer,
  isObject,
  line,
  list,
  mapped,
  maxNameLength,
  maxPathLength,
  maxScriptLength,
  multiline,
  nullable,
  object,
  oneOf,
  optional,
  present,
  type Read,
  reads,
  record,
  pick
} from '../../base/fields.js'
import { invalid, Refusal } from '../../base/errors.js'
import {
  clientVariableNameFault,
  maxClientVariables,
  maxVariableBytes,
  maxVariables,
  variableNameFault,
  variableValueFault
} from '../../model/variable.js'
import {
  type Asked,
  type DesiredLine,
  hubKeyText,
  lineText,
  type ReleaseDocument,
  releaseText,
  requestText,
  type SessionAnswer,
  sessionText,
  type SignedHubKey
} from '../../model/fleet-wire.js'
import { nodeSettings } from '../../model/project.js'
import { storedPolicy } from '../../model/policy-keys.js'
import { projectFields } from '../../model/project-fields.js'
import { parseServerUrl } from '../../base/config/client-config.js'
import { orderActions } from '../../model/rollout.js'

const count = integer(0, Number.MAX_SAFE_INTEGER)
const id = line({ min: 1, max: maxNameLength })
const script = optional(multiline({ max: maxScriptLength }))

const settings = pick(projectFields, [...nodeSettings, 'allowClientScripts', 'maxDiskMb'])
const knownSettings = object(settings, { strict: true })

const project: Read<Record<string, unknown>> = reads(knownSettings.schema, {}, (value, field) =>
  present(knownSettings(isObject(value) ? withoutUnset(value) : value, field))
)

/** How a project is rolled out is a matter of its hub. */
const policy: Read<ReleaseDocument['policy']> = reads(storedPolicy.schema, {}, (value, field) => {
  if (!isObject(value)) throw invalid(field, `"${field}" is missing or of another type: expected an object`)
  const { rollout: _, ...own } = value
  return storedPolicy(own, field)
})

const variable = mapped(
  object({ name: checked(line(), variableNameFault), value: multiline({ max: maxVariableBytes }), secret: flag }),
  (read, field) => {
    const fault = variableValueFault(read.value, read.secret)
    if (fault !== null) throw invalid(`${field}.value`, `The value of "${read.name}" ${fault}`)
    return read
  }
)

const knownOffer = object(
  {
    origin: oneOf(['upload', 'source deployment']),
    preDeploy: script,
    postDeploy: script,
    postDeployAsync: optional(flag)
  },
  { strict: true }
)
const offered = mapped(knownOffer, given => ({ ...present(given), origin: given.origin }))

const clientEnv = checked(record(multiline(), clientVariableNameFault), given => {
  const { length } = Object.keys(given)
  return length > maxClientVariables ? `it has ${length} variables, at most ${maxClientVariables} are allowed` : null
})

const readDocument = object({
  deployId: id,
  projectId: id,
  projectName: line({ min: 1, max: maxNameLength }),
  env: line({ max: maxNameLength }),
  deployPath: line({ min: 1, max: maxPathLength }),
  treeSha256: id,
  archiveSha256: id,
  archiveBytes: count,
  fileCount: nullable(count),
  policy,
  project,
  variables: list(variable, { max: maxVariables }),
  offered,
  clientEnv,
  message: nullable(escapedLine()),
  attested: optional(
    object({
      statement: multiline({ max: maxStatementBytes }),
      signatures: list(multiline({ max: maxSignatureBytes }), { max: maxSignatures })
    })
  )
})

/** Returns the document that a text contains. Refuses (`invalid`) `wrong_release`, and names the field. */
export function readReleaseDocument(text: string): ReleaseDocument {
  try {
    const { attested, ...document } = readDocument(parseDocument(text), 'release')
    return { ...document, ...(attested !== undefined && { attested }) }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const sentence = `Cannot use the release from the hub: ${error.message}. If the hub runs a newer svc, upgrade svc on this node`
    throw new Refusal('invalid', 'wrong_release', sentence)
  }
}

function parseDocument(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid('release', '"release" is not valid JSON')
  }
}

/** Drops what this version does not know and the hub has not set. */
function withoutUnset(value: Record<string, unknown>): Record<string, unknown> {
  const isUnset = (given: unknown) => given === null || given === '' || given === false
  return Object.fromEntries(
    Object.entries(value).filter(([name, given]) => Object.hasOwn(settings, name) || !isUnset(given))
  )
}

/*
 * Reads what a hub says: the begin of a session, the lines of its stream, releases. Another server may have the hub's
 * address, and may have recorded what the hub said once. So nothing counts that the hub has not signed for this node, this
 * session and this request; a line also has its number in the stream and its age. Of a line, the fields of its type are
 * taken, and no others.
 */

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

/** Returns the refusal of an answer that no hub gives. */
export function notHub(address: string): Refusal {
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

/* The signatures between an agent and its hub: Ed25519 over the texts of model/fleet-wire.ts. */

const keyBytes = 32

/** Returns the public key of these 32 bytes in base64; null: they are not a key. */
export function publicKeyOf(base64: string): KeyObject | null {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length !== keyBytes) return null
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') }, format: 'jwk' })
}

/** Returns whether a key has signed a text. `signature` is base64. */
export function isSignedBy(key: KeyObject, text: string, signature: string): boolean {
  return verify(null, Buffer.from(text), key, Buffer.from(signature, 'base64'))
}

export function signedHeaders(key: KeyObject, request: Parameters<typeof requestText>[0]): Record<string, string> {
  const { nodeId, session, counter, bodySha256 } = request
  const signature = sign(null, Buffer.from(requestText(request)), key).toString('base64url')
  return {
    authorization: `SvcNode ${nodeId} ${session} ${counter} ${signature}`,
    'svc-content-sha256': bodySha256
  }
}
