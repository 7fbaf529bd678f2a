/*
 * Signatures of a statement, of any kind: of `ssh-keygen -Y sign` (sshsig.ts), of minisign (minisign.ts), or in an envelope
 * (dsse.ts), whose payload may be left out: it is the statement.
 */
import { Refusal } from '../../base/errors.js'
import { maxSignatureBytes, maxSignatures } from '../../model/statement.js'
import { type EnvelopeSignature, isSignedBy, readEnvelope } from './dsse.js'
import { statementType } from '../../base/shared/statement-text.js'
import type { PublicKey } from './keys.js'
import { isMinisign, isMinisigned, type MinisignSignature, readMinisignSignature } from './minisign.js'
import { isSshSigned, readSshSignature, type SshSignature } from './sshsig.js'
import { minisignName } from './keys.js'

/** One signature. */
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
