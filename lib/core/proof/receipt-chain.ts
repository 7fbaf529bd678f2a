/*
 * Chains of receipts. The receipts of a project are numbered from 1, and each contains the SHA-256 of the one before. A
 * chain belongs to a project and to a server, which its audit log names: a project that was imported begins a new one.
 *
 * The file of `svc receipt export` has a line for the keys, and a line for each receipt, which is the receipt itself:
 *
 *   {"svcReceipts":1,"successors":[{"hubKey":"…","signature":"…"}]}
 *   {"payloadType":"application/vnd.in-toto+json","payload":"…","signatures":[…]}
 */
import { parsePublicKey } from '../../base/digests.js'
import { line, list, object, oneOf } from '../../base/fields.js'
import { type KeyObject, verify } from 'node:crypto'
import { type SignedHubKey, hubKeyText } from '../../model/fleet-wire.js'
import { badReceipt, whyBad, isReceiptOf, maxReceiptBytes, readReceipt, type ReadReceipt } from './receipt.js'
import { fingerprintOf } from './statement.js'
import { Refusal } from '../../base/errors.js'
import { readVerifierKey } from '../audit/signed-note.js'
import { ed25519, readPublicKey } from './keys.js'

/** A receipt, and the name of the file that it is from. */
export interface GivenReceipt extends ReadReceipt {
  from: string
}

/** Receipts and the statements about the keys of their servers. */
export interface ReceiptFile {
  receipts: GivenReceipt[]
  successors: SignedHubKey[]
}

/** The receipts of a project that were given. */
export interface ReceiptChain {
  project: string
  projectId: string
  origin: string
  first: number
  last: number
  /** SHA-256 of the last one. */
  head: string
}

/** The result of a verification. */
export interface ReceiptVerdict {
  chains: ReceiptChain[]
  /** What is wrong, as sentences. */
  faults: string[]
  /** What one should know, although nothing is wrong. */
  notes: string[]
}

/** Maximum number of key statements of a file. */
const maxSuccessors = 1000
const headerStart = '{"svcReceipts":'

const headerReader = object(
  {
    svcReceipts: oneOf(['1']),
    successors: list(object({ hubKey: line({ max: 100 }), signature: line({ max: 200 }) }), { max: maxSuccessors })
  },
  { strict: true }
)

/** Returns the first line of a file of receipts. */
export function receiptsHeader(successors: readonly SignedHubKey[]): string {
  return `${JSON.stringify({ svcReceipts: '1', successors })}\n`
}

/**
 * Reads a receipt, or a file of several, which is empty but for its head after a quiet period. Refuses (`invalid`, `bad_receipt`), naming the
 * file and the line.
 */
export function readReceipts(text: string, from: string): ReceiptFile {
  const found: ReceiptFile = { receipts: [], successors: [] }
  for (let [at, number] = [0, 1]; at < text.length; number++) {
    const newline = text.indexOf('\n', at)
    const end = newline === -1 ? text.length : newline + 1
    const one = text.slice(at, end)
    at = end
    try {
      if (one.startsWith(headerStart)) found.successors.push(...readHeader(one))
      else found.receipts.push({ ...readReceipt(one), from })
    } catch (error) {
      throw badReceipt(`${from}, line ${number}: ${whyBad(error as Error)}`, error)
    }
  }
  if (text === '') throw badReceipt(`${from} contains none`)
  return found
}

function readHeader(text: string): SignedHubKey[] {
  if (text.length > maxSuccessors * maxReceiptBytes) throw badReceipt('its first line is too long')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw badReceipt('its first line is not JSON', error)
  }
  return headerReader(value, 'keys').successors
}

const noSuccessors =
  'No file says which key followed another one: "svc receipt export" of the server that issued them writes that'

interface Trust {
  keys: readonly TrustedKey[]
  successors: readonly SignedHubKey[]
  /** Fingerprints of keys that are not trusted any more, whatever other keys say. */
  revoked: ReadonlySet<string>
}

/**
 * Verifies the signatures of receipts and the chains that they are part of. `previous` are receipts that were kept before: the
 * others must continue them.
 */
export function verifyReceipts(
  received: readonly GivenReceipt[],
  trust: Trust,
  previous: readonly GivenReceipt[] = []
): ReceiptVerdict {
  const given = [...previous, ...received]
  const verdict: ReceiptVerdict = { chains: [], faults: lostFaults(received, previous), notes: [] }
  const accepted = acceptedKeys(given, trust)
  const chains = new Map<string, GivenReceipt[]>()
  const seen = new Map<string, string>()
  for (const receipt of given) {
    const before = seen.get(receipt.sha256)
    if (before !== undefined) {
      verdict.notes.push(`${nameOf(receipt)} was given twice: ${before} and ${receipt.from}`)
      continue
    }
    seen.set(receipt.sha256, receipt.from)
    const fault = signatureFault(receipt, accepted, trust)
    if (fault !== null) {
      verdict.faults.push(fault)
      continue
    }
    const chain = chainOf(receipt)
    chains.set(chain, [...(chains.get(chain) ?? []), receipt])
  }
  for (const receipts of chains.values()) verdict.chains.push(verifyChain(receipts, verdict))
  const isUnnamed = given.some(
    ({ receipt }) => !accepted.has(receipt.server.key) && !trust.revoked.has(receipt.server.key)
  )
  if (isUnnamed && accepted.size > 0 && trust.successors.length === 0) verdict.notes.push(noSuccessors)
  return verdict
}

/** Returns the name of the chain that a receipt is part of. */
function chainOf({ receipt: { server, project } }: ReadReceipt): string {
  return JSON.stringify([server.origin, project.id])
}

/** Returns a fault for each chain that ends earlier now than before. A chain of which nothing was received is not judged. */
function lostFaults(received: readonly GivenReceipt[], previous: readonly GivenReceipt[]): string[] {
  const last = (receipts: readonly GivenReceipt[]): Map<string, GivenReceipt> => {
    const found = new Map<string, GivenReceipt>()
    for (const each of receipts) {
      const known = found.get(chainOf(each))
      if (known === undefined || known.receipt.chain.number < each.receipt.chain.number) found.set(chainOf(each), each)
    }
    return found
  }
  const before = last(previous)
  return [...last(received)].flatMap(([chain, newest]) => {
    const kept = before.get(chain)
    if (kept === undefined || kept.receipt.chain.number <= newest.receipt.chain.number) return []
    const why = 'Later ones were left out, or the server was restored from an older backup'
    return [`The chain ends with ${nameOf(newest)}, and ${nameOf(kept)} was there before. ${why}`]
  })
}

/** Returns the trusted keys and their successors, by fingerprint. A fingerprint gets its key from the receipts. */
function acceptedKeys(given: readonly GivenReceipt[], { keys, successors, revoked }: Trust): Map<string, KeyObject> {
  const accepted = new Map<string, KeyObject>()
  for (const { fingerprint, key } of keys) {
    const named = given.find(({ receipt }) => receipt.server.key === fingerprint)?.receipt.server.publicKey
    const found = key ?? (named === undefined ? null : parsePublicKey(named))
    if (found === null || accepted.has(fingerprint)) continue
    for (const each of [found, ...successorsOf(found, successors, revoked)]) accepted.set(fingerprintOf(each), each)
  }
  return accepted
}

function signatureFault(receipt: GivenReceipt, accepted: ReadonlyMap<string, KeyObject>, trust: Trust): string | null {
  const { key } = receipt.receipt.server
  const name = nameOf(receipt)
  if (trust.revoked.has(key)) return `${name} was signed by the key ${key}, which is revoked`
  const found = accepted.get(key)
  if (found === undefined)
    return `${name} was signed by the key ${key}: you do not trust it, and no key that you trust names it as its successor`
  return isReceiptOf(receipt, found) ? null : `The signature of ${name} is not valid: the receipt was changed`
}

/** Verifies the receipts of one chain. At least one is given. */
function verifyChain(given: GivenReceipt[], { faults, notes }: ReceiptVerdict): ReceiptChain {
  const receipts = [...given].sort((a, b) => a.receipt.chain.number - b.receipt.chain.number)
  const byDeployment = new Map<string, GivenReceipt>()
  let before: GivenReceipt | null = null
  for (const receipt of receipts) {
    const { id } = receipt.receipt.deployment
    const other = byDeployment.get(id)
    if (other !== undefined) faults.push(`Deployment ${id} has two receipts: ${nameOf(other)} and ${nameOf(receipt)}`)
    byDeployment.set(id, receipt)
    if (before === null) {
      const { number } = receipt.receipt.chain
      if (number > 1) notes.push(`The chain begins with ${nameOf(receipt)}: the ${number - 1} before it were not given`)
    } else faults.push(...linkFaults(before, receipt, notes))
    before = receipt
  }
  const [first, last] = [receipts[0] as GivenReceipt, receipts.at(-1) as GivenReceipt]
  if (first.receipt.chain.number === 1 && first.receipt.chain.previous !== null)
    faults.push(`${nameOf(first)} is the first of its chain, but names one before it`)
  return {
    project: last.receipt.project.name,
    projectId: last.receipt.project.id,
    origin: last.receipt.server.origin,
    first: first.receipt.chain.number,
    last: last.receipt.chain.number,
    head: last.sha256
  }
}

/** Returns what is wrong between a receipt and the one before. */
function linkFaults(before: GivenReceipt, after: GivenReceipt, notes: string[]): string[] {
  const [from, to] = [before.receipt.chain.number, after.receipt.chain.number]
  if (from === to) {
    const why = 'The server was restored from an older backup, or somebody else uses its key'
    return [`The chain forks: ${nameOf(before)} and ${nameOf(after)} have the same number. ${why}`]
  }
  if (to > from + 1) {
    const missing = to === from + 2 ? `Receipt ${from + 1} is` : `The receipts ${from + 1} to ${to - 1} are`
    return [`${missing} missing between ${nameOf(before)} and ${nameOf(after)}`]
  }
  if (after.receipt.chain.previous !== before.sha256) {
    const why = 'One of them was exchanged, or the server was restored from an older backup'
    return [`${nameOf(after)} does not follow ${nameOf(before)}: it names another receipt before it. ${why}`]
  }
  if (after.receipt.deployment.issuedAt < before.receipt.deployment.issuedAt)
    notes.push(`${nameOf(after)} says an earlier time than ${nameOf(before)}: the clock of the server was set back`)
  const [earlier, later] = [before.receipt.audit, after.receipt.audit]
  if (earlier === null || later === null) return []
  const isShorter = later.size < earlier.size || (later.size === earlier.size && later.root !== earlier.root)
  return isShorter ? [`Between ${nameOf(before)} and ${nameOf(after)}, the audit log of the server was changed`] : []
}

function nameOf({ receipt }: ReadReceipt): string {
  return `receipt ${receipt.chain.number} of project "${receipt.project.name}" (${receipt.deployment.id})`
}

/*
 * Public keys of servers, as people hand them on, and the keys that follow them. A server that gets a new key signs it with
 * the one before (`hubKeyText`), so that a verifier that knows one key learns all later ones, and no earlier
 * one.
 */

/** A key that a verifier trusts: the key, or its fingerprint alone. */
export interface TrustedKey {
  fingerprint: string
  key: KeyObject | null
}

const fingerprint = /^SHA256:[A-Za-z0-9+/]{43}$/

/**
 * Reads a key: the text of `keys/server.pub`, a public key in PEM, a line as SSH writes it, or a fingerprint. Refuses
 * (`invalid`, `bad_key`) anything else.
 */
export function readTrustedKey(given: string): TrustedKey {
  const text = given.trim()
  if (fingerprint.test(text)) return { fingerprint: text, key: null }
  const key = publicKeyOf(text)
  if (key === null || key.asymmetricKeyType !== 'ed25519') throw badKey()
  return { fingerprint: fingerprintOf(key), key }
}

function publicKeyOf(text: string): KeyObject | null {
  try {
    if (text.startsWith('-----BEGIN PUBLIC KEY-----') || text.startsWith(`${ed25519} `)) return readPublicKey(text).key
    if (readVerifierKey(text) === null) return null
    const marked = Buffer.from(text.slice(text.indexOf('+', text.indexOf('+') + 1) + 1), 'base64')
    return parsePublicKey(marked.subarray(1).toString('base64'))
  } catch {
    return null
  }
}

function badKey(): Refusal {
  const forms = 'expected the text of keys/server.pub, a public key in PEM, a line "ssh-ed25519 …" or a fingerprint'
  return new Refusal('invalid', 'bad_key', `This is not the public key of a server: ${forms}`, { field: 'key' })
}

/**
 * Returns the keys that follow a key, by the statements of their server. `revoked` are not followed: what such a key
 * signed counts for nothing.
 */
export function successorsOf(
  first: KeyObject,
  statements: readonly SignedHubKey[],
  revoked: ReadonlySet<string> = new Set()
): KeyObject[] {
  const found: KeyObject[] = []
  const seen = new Set([fingerprintOf(first)])
  for (const open = [first]; open.length > 0; ) {
    const key = open.pop() as KeyObject
    if (revoked.has(fingerprintOf(key))) continue
    for (const { hubKey, signature } of statements) {
      const next = parsePublicKey(hubKey)
      if (next === null || seen.has(fingerprintOf(next))) continue
      if (!verify(null, Buffer.from(hubKeyText(hubKey)), key, Buffer.from(signature, 'base64'))) continue
      seen.add(fingerprintOf(next))
      found.push(next)
      open.push(next)
    }
  }
  return found
}
