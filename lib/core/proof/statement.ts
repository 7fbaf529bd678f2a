/*
 * Reads and writes statements about releases (model/statement.ts). A statement is JSON: an object in which no key comes twice,
 * since programs do not agree about which one counts. What svc does not know in it is left alone.
 */
import {
  checked,
  instant,
  integer,
  line,
  list,
  mapped,
  nullable,
  object,
  oneOf,
  optional,
  readFields,
  sha256Text,
  withDefault
} from '../../base/fields.js'
import { sha256, rawPublicKey } from '../../base/digests.js'
import { Refusal } from '../../base/errors.js'
import { JsonFault, strictJson } from '../../base/json.js'
import { clientVariableNameFault, maxClientVariables } from '../../model/variable.js'
import {
  predicateType,
  pushBuildType,
  type StatedOrigin,
  statementText,
  statementVersion,
  envelopeHead,
  statementType
} from '../../base/shared/statement-text.js'
import { maxStatementBytes, type Statement } from '../../model/statement.js'
import { type KeyObject, sign, verify } from 'node:crypto'

/** Maximum depth of a statement. */
const maxDepth = 32
/** Maximum number of other projects. */
const maxProjects = 100
const maxItems = 1000

const id = line({ min: 1, max: 100 })
const variableName = checked(line({ min: 1, max: 200 }), text =>
  clientVariableNameFault(text) === null ? null : 'expected the name of a variable'
)
const zoned = mapped(
  checked(instant, text => (/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? null : 'expected a time with its zone')),
  text => new Date(text).toISOString()
)

const shape = {
  _type: oneOf([statementVersion]),
  subject: list(object({ name: line({ min: 1, max: 200 }), digest: object({ sha256: sha256Text }) }), {
    min: 1,
    max: 1
  }),
  predicateType: oneOf([predicateType]),
  predicate: object({
    buildDefinition: object({
      buildType: oneOf([pushBuildType]),
      externalParameters: object({
        projectId: id,
        alsoFor: withDefault(list(id, { max: maxProjects }), []),
        message: nullable(line({ max: 500 })),
        scripts: withDefault(
          object({ preDeploy: optional(sha256Text), postDeploy: optional(sha256Text) }, { strict: true }),
          {
            preDeploy: undefined,
            postDeploy: undefined
          }
        ),
        env: withDefault(list(variableName, { max: maxClientVariables }), []),
        notAfter: nullable(zoned),
        sequence: integer(0, Number.MAX_SAFE_INTEGER)
      })
    }),
    runDetails: withDefault(
      object({
        builder: withDefault(object({ id: withDefault(line({ max: 300 }), '') }), { id: '' }),
        byproducts: withDefault(
          list(object({ name: line({ max: 200 }), digest: object({ sha256: sha256Text }) }), { max: maxItems }),
          []
        )
      }),
      { builder: { id: '' }, byproducts: [] }
    )
  })
}

/** The name of a list of components among the byproducts. */
const sbomName = /(^|[./-])(cdx|spdx|sbom)([./-]|$)/i

/** Reads a statement. Refuses (403 `signature_bad`) anything else. */
export function readStatement(bytes: Uint8Array): Statement {
  const value = parse(bytes)
  try {
    const { subject, predicate } = readFields(value, shape)
    const { buildDefinition, runDetails } = predicate
    const given = buildDefinition.externalParameters
    const [only] = subject
    if (only === undefined) throw unusable('it is about nothing')
    const { preDeploy, postDeploy } = given.scripts
    const boms = runDetails.byproducts.filter(({ name }) => sbomName.test(name))
    if (boms.length > 1) throw unusable('it names two lists of components')
    return {
      name: only.name,
      treeSha256: only.digest.sha256,
      projectId: given.projectId,
      alsoFor: given.alsoFor,
      message: given.message,
      scripts: { ...(preDeploy !== undefined && { preDeploy }), ...(postDeploy !== undefined && { postDeploy }) },
      env: given.env,
      notAfter: given.notAfter,
      sequence: given.sequence,
      builder: runDetails.builder.id || null,
      sbomSha256: boms[0]?.digest.sha256 ?? null
    }
  } catch (error) {
    if (error instanceof Refusal && error.code !== 'signature_bad') throw unusable(error.message)
    throw error
  }
}

function unusable(why: string): Refusal {
  const sentence = `Cannot use the statement: ${why}. Sign again with --sign-key of svc push or svc bundle`
  return new Refusal('forbidden', 'signature_bad', sentence, { field: 'statement' })
}

function parse(bytes: Uint8Array): unknown {
  if (bytes.length > maxStatementBytes) throw unusable(`it has more than ${maxStatementBytes} bytes`)
  try {
    return strictJson(bytes, { maxDepth, takesMark: false })
  } catch (fault) {
    if (fault instanceof JsonFault) throw unusable(fault.message.split('. ', 1)[0] as string)
    throw fault
  }
}

export function writeStatement(statement: Statement, origin: StatedOrigin): Buffer {
  return Buffer.from(statementText(statement, origin))
}

/** Returns the digest of a script, as statements name it. */
export const digestOf = (script: string): string => sha256(Buffer.from(script)).toString('hex')

/*
 * Envelopes of signed documents: DSSE 1.0 (Dead Simple Signing Envelope), with Ed25519 signatures. A signature covers the
 * type and the bytes of the payload (`signedBytes`), so a document of one kind is never taken for one of another.
 *
 *   {"payloadType": "application/vnd.in-toto+json", "payload": "<base64>", "signatures": [{"keyid": "…", "sig": "<base64>"}]}
 */

/** A signature of an envelope, over `signedBytes`. */
export interface EnvelopeSignature {
  /** The name of the key (`fingerprintOf`). Not signed: it only says which key to try. */
  keyid: string
  sig: Buffer
}

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

const envelopeFields = {
  payloadType: line({ min: 1, max: 200 }),
  payload: base64(maxPayloadCharacters),
  signatures: list(object({ keyid: withDefault(line({ max: 200 }), ''), sig: base64(200) }), {
    min: 1,
    max: maxSignatures
  })
}

/** Reads an envelope. Refuses (`invalid`) anything else, naming the field. */
export function readEnvelope(value: unknown): Envelope {
  return readFields(value, envelopeFields)
}

/** Returns an envelope without its payload, which is sent beside it. */
export function bareEnvelope(statement: Buffer, key: KeyObject): string {
  const [signature] = sealed(statementType, statement, [key]).signatures
  const sig = (signature as EnvelopeSignature).sig.toString('base64')
  return `${JSON.stringify({ payloadType: statementType, signatures: [{ keyid: fingerprintOf(key), sig }] })}\n`
}
