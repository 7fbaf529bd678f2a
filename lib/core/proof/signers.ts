/*
 * Who signed a release, and whether what comes with its files is what was signed. The server asks before it deploys, and
 * `svc bundle verify` without a server.
 */
import { Refusal } from '../../base/errors.js'
import { isBlank } from '../../base/text.js'
import { type Statement, statedScripts, maxSignatureBytes, maxSignatures } from '../../model/statement.js'
import { type PublicKey, minisignName } from './keys.js'
import { digestOf, readStatement, type EnvelopeSignature, isSignedBy, readEnvelope } from './statement.js'
import { statementType } from '../../base/shared/statement-text.js'
import {
  isMinisign,
  isMinisigned,
  type MinisignSignature,
  readMinisignSignature,
  isSshSigned,
  readSshSignature,
  type SshSignature
} from './signature-formats.js'

/** A statement and its signatures, as a client sends them. */
export interface SentSignatures {
  statement: string
  signatures: string[]
}

/** What was signed, and by whom. */
export interface SignedStatement<Key> {
  statement: Statement
  /** Trusted keys of good signatures, each once. */
  keys: Key[]
  /** Names of the others. */
  strangers: string[]
}

/** Reads a statement and verifies its signatures. Refuses (403 `signature_bad`) whatever is not as it should be. */
export function readSigned<Key extends { key: PublicKey }>(
  trusted: readonly Key[],
  sent: SentSignatures
): SignedStatement<Key> {
  const bytes = Buffer.from(sent.statement)
  const statement = readStatement(bytes)
  const keys = new Map<string, Key>()
  const strangers: string[] = []
  for (const signature of readSignatures(sent.signatures, bytes)) {
    const named = trusted.filter(({ key }) => namesKey(signature, key))
    if (named.length === 0) {
      strangers.push(signerOf(signature))
      continue
    }
    const maker = named.find(({ key }) => isMadeBy(signature, bytes, key))
    if (maker === undefined) throw badSignature(`that of ${signerOf(signature)} is not one of this statement`)
    // One key counts once, in whatever form it is trusted.
    keys.set(rawOf(maker.key), maker)
  }
  return { statement, keys: [...keys.values()], strangers }
}

const rawOf = ({ key }: PublicKey): string => key.export({ type: 'spki', format: 'der' }).toString('hex')

/** Returns why a key does not sign at a time, or null. */
export function faultOfTimes(
  { notBefore, notAfter }: { notBefore: string | null; notAfter: string | null },
  at: string
): string | null {
  if (notBefore !== null && at < notBefore) return `signs only from ${notBefore} on`
  return notAfter !== null && at >= notAfter ? `has expired at ${notAfter}` : null
}

/** The scripts that come with a release. */
export type StatedScripts = Partial<Record<(typeof statedScripts)[number], string | undefined>>

/** The scripts and the variables of a push must be exactly those that were signed. Returns the refusal, or null. */
export function faultOfScripts(statement: Statement, offered: StatedScripts, env: readonly string[]): Refusal | null {
  for (const step of statedScripts) {
    const given = offered[step]
    const digest = isBlank(given) ? undefined : digestOf(given as string)
    if (digest === statement.scripts[step]) continue
    const what = digest === undefined ? 'is missing' : 'is not the one that was signed'
    return badSignature(`the script ${step} ${what}`)
  }
  const other = env.find(name => !statement.env.includes(name))
  if (other !== undefined) return badSignature(`the variable ${other} was not signed`)
  const gone = statement.env.find(name => !env.includes(name))
  return gone === undefined ? null : badSignature(`the variable ${gone} is missing`)
}

/** Returns the refusal of another list of components than the one that was signed, or null. */
export function faultOfSbom(statement: Statement, sbomSha256: string | null): Refusal | null {
  if (statement.sbomSha256 === sbomSha256) return null
  return badSignature('the list of components is not the one that was signed')
}

/*
 * Signatures of a statement, of any kind: of `ssh-keygen -Y sign` or minisign (signature-formats.ts), or in an envelope
 * (statement.ts), whose payload may be left out: it is the statement.
 */

export type Signature =
  | { kind: 'ssh'; signature: SshSignature }
  | { kind: 'minisign'; signature: MinisignSignature }
  | { kind: 'svc'; signature: EnvelopeSignature }

/** Returns the refusal of a signature that is not good. */
export function badSignature(why: string): Refusal {
  const sentence = `Cannot use the signature: ${why}. Sign again with --sign-key of svc push or svc bundle`
  return new Refusal('forbidden', 'signature_bad', sentence, { field: 'signature' })
}

/** Reads signatures of a statement. Refuses (403 `signature_bad`) what is none, and more than 16. */
export function readSignatures(texts: readonly string[], statement: Buffer): Signature[] {
  const all = texts.flatMap(text => readOne(text, statement))
  if (all.length > maxSignatures) throw badSignature(`there are more than ${maxSignatures}`)
  return all
}

function readOne(text: string, statement: Buffer): Signature[] {
  if (Buffer.byteLength(text) > maxSignatureBytes) throw badSignature(`it has more than ${maxSignatureBytes} bytes`)
  const given = text.trim()
  try {
    if (given.startsWith('-----BEGIN ')) return [{ kind: 'ssh', signature: readSshSignature(given) }]
    if (isMinisign(given)) return [{ kind: 'minisign', signature: readMinisignSignature(given) }]
    return ofEnvelope(given, statement)
  } catch (error) {
    if (error instanceof Refusal && error.code !== 'signature_bad') throw badSignature(error.message)
    throw error
  }
}

function ofEnvelope(text: string, statement: Buffer): Signature[] {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw badSignature('it is neither one of ssh-keygen, nor one of minisign, nor an envelope')
  }
  const envelope = readEnvelope(withPayload(value, statement))
  if (envelope.payloadType !== statementType) throw badSignature(`it is not one of "${statementType}"`)
  if (!envelope.payload.equals(statement))
    throw badSignature('it contains another statement than the one that was sent')
  return envelope.signatures.map(signature => ({ kind: 'svc', signature }))
}

function withPayload(value: unknown, statement: Buffer): unknown {
  if (typeof value !== 'object' || value === null || 'payload' in value) return value
  return { ...value, payload: statement.toString('base64') }
}

/** Returns the name of the key that a signature says it is of. */
export function signerOf(signature: Signature): string {
  if (signature.kind === 'ssh') return signature.signature.key.fingerprint
  if (signature.kind === 'minisign') return `minisign ${minisignName(signature.signature.keyId)}`
  return /^SHA256:[A-Za-z0-9+/]{43}$/.test(signature.signature.keyid) ? signature.signature.keyid : 'without a name'
}

/** Returns whether a signature names this key. */
export function namesKey(signature: Signature, key: PublicKey): boolean {
  if (signature.kind !== key.kind) return false
  if (signature.kind === 'ssh') return signature.signature.key.fingerprint === key.fingerprint
  if (signature.kind === 'minisign') return key.minisignId?.equals(signature.signature.keyId) ?? false
  return signature.signature.keyid === key.fingerprint
}

/** Returns whether a signature that names this key is one of it, over this statement. */
export function isMadeBy(signature: Signature, statement: Buffer, { key }: PublicKey): boolean {
  if (signature.kind === 'ssh') return isSshSigned(statement, signature.signature)
  if (signature.kind === 'minisign') return isMinisigned(statement, signature.signature, key)
  const envelope = { payloadType: statementType, payload: statement, signatures: [] }
  return isSignedBy(envelope, signature.signature, key)
}
