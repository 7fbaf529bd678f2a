/*
 * Envelopes of signed documents: DSSE 1.0 (Dead Simple Signing Envelope), with Ed25519 signatures. A signature covers the
 * type and the bytes of the payload (`signedBytes`), so a document of one kind is never taken for one of another.
 *
 *   {"payloadType": "application/vnd.in-toto+json", "payload": "<base64>", "signatures": [{"keyid": "…", "sig": "<base64>"}]}
 */
import { type KeyObject, sign, verify } from 'node:crypto'
import { sha256 } from '../../base/digests.js'
import { rawPublicKey } from '../../base/signing-key.js'
import { envelopeHead, statementType } from '../../base/shared/statement-text.js'
import { checked, line, list, mapped, object, readFields, withDefault } from '../../base/fields.js'

/** A signature of an envelope, over `signedBytes`. */
export interface EnvelopeSignature {
  /** The name of the key (`fingerprintOf`). Not signed: it only says which key to try. */
  keyid: string
  sig: Buffer
}

/** An envelope. */
export interface Envelope {
  payloadType: string
  payload: Buffer
  signatures: readonly EnvelopeSignature[]
}

const maxSignatures = 16
const maxPayloadCharacters = 1024 * 1024
const signatureBytes = 64
/** Base64 without the `=` at its end. */
const fingerprintCharacters = 43
const sshType = 'ssh-ed25519'

/** Returns what a signature covers ("PAE", DSSE protocol). */
export function signedBytes(payloadType: string, payload: Uint8Array): Buffer {
  return Buffer.concat([
    Buffer.from(envelopeHead(payloadType, Buffer.byteLength(payloadType), payload.length)),
    payload
  ])
}

/** Returns the name of an Ed25519 key as `ssh-keygen -l` prints it: `SHA256:` and 43 characters. */
export function fingerprintOf(key: KeyObject): string {
  return `SHA256:${sha256(sshPublicKey(key)).toString('base64').slice(0, fingerprintCharacters)}`
}

/** Returns an Ed25519 public key, or that of a private key, as SSH writes it (RFC 8709 §4). */
export function sshPublicKey(key: KeyObject): Buffer {
  return Buffer.concat([sshString(Buffer.from(sshType)), sshString(rawPublicKey(key))])
}

/** Returns bytes with their length before them (RFC 4251 §5). */
export function sshString(bytes: Uint8Array): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}

/** Returns the envelope of a payload, signed by these private keys. */
export function sealed(payloadType: string, payload: Buffer, keys: readonly KeyObject[]): Envelope {
  const bytes = signedBytes(payloadType, payload)
  const signatures = keys.map(key => ({ keyid: fingerprintOf(key), sig: sign(null, bytes, key) }))
  return { payloadType, payload, signatures }
}

/** Returns whether a signature of an envelope is one of this public key. */
export function isSignedBy({ payloadType, payload }: Envelope, { sig }: EnvelopeSignature, key: KeyObject): boolean {
  return sig.length === signatureBytes && verify(null, signedBytes(payloadType, payload), key, sig)
}

/** Returns the text of an envelope: one line. */
export function envelopeText({ payloadType, payload, signatures }: Envelope): string {
  const written = signatures.map(({ keyid, sig }) => ({ keyid, sig: sig.toString('base64') }))
  return `${JSON.stringify({ payloadType, payload: payload.toString('base64'), signatures: written })}\n`
}

/** Base64 in either alphabet, as the protocol demands of a reader. */
const base64 = (max: number) =>
  mapped(
    checked(line({ max }), text => (/^[A-Za-z0-9+/_-]*={0,2}$/.test(text) ? null : 'expected base64')),
    text => Buffer.from(text, 'base64')
  )

const shape = {
  payloadType: line({ min: 1, max: 200 }),
  payload: base64(maxPayloadCharacters),
  signatures: list(object({ keyid: withDefault(line({ max: 200 }), ''), sig: base64(200) }), {
    min: 1,
    max: maxSignatures
  })
}

/** Reads an envelope. Refuses (`invalid`) anything else, naming the field. */
export function readEnvelope(value: unknown): Envelope {
  return readFields(value, shape)
}

/** Returns an envelope without its payload, which is sent beside it. */
export function bareEnvelope(statement: Buffer, key: KeyObject): string {
  const [signature] = sealed(statementType, statement, [key]).signatures
  const sig = (signature as EnvelopeSignature).sig.toString('base64')
  return `${JSON.stringify({ payloadType: statementType, signatures: [{ keyid: fingerprintOf(key), sig }] })}\n`
}
