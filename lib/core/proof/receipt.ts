/*
 * Receipts of deployments: one line of text, a DSSE envelope with one Ed25519 signature of the server, of an in-toto
 * statement (v1) about the release, with the predicate `urn:svc:deployment:v1` (model/receipt.ts).
 *
 * A receipt has exactly one form. Its text is what `envelopeText` writes, and its payload is what JSON.stringify writes: no
 * other text has the same meaning, so the SHA-256 of the file is the name of the receipt, and the next one contains it.
 */
import type { KeyObject } from 'node:crypto'
import { sha256, parsePublicKey } from '../../base/digests.js'
import { invalid, Refusal } from '../../base/errors.js'
import {
  checked,
  flag,
  instant,
  integer,
  line,
  list,
  maxPathLength,
  nullable,
  object,
  oneOf,
  optional,
  type Read
} from '../../base/fields.js'
import { revertReasons, scriptSteps, stepNames, triggerSources } from '../../model/deployment.js'
import { propertiesOf, type Receipt, type ReceiptStatement, type ShortenedList } from '../../model/receipt.js'
import { nodePhases } from '../../model/rollout.js'
import { type Envelope, envelopeText, fingerprintOf, isSignedBy, readEnvelope, signedBytes } from './statement.js'
import { statementType } from '../../base/shared/statement-text.js'

/** The type of the predicate. */
export const receiptType = 'urn:svc:deployment:v1'
/** Maximum size of a receipt in bytes. */
export const maxReceiptBytes = 8 * 1024
/** The type of a Simple Verification Result. */
export const resultType = 'https://in-toto.io/attestation/svr/v0.2'

const statementHead = 'https://in-toto.io/Statement/v1'

/** Signs for a server. */
export interface ReceiptSigner {
  /** The fingerprint of the key. */
  fingerprint: string
  /** Returns the signature of bytes in base64. */
  sign(bytes: Uint8Array): string
}

/** A receipt that was read. Its signature is not verified yet. */
export interface ReadReceipt extends ReceiptStatement {
  /** The line, with its newline. */
  text: string
  /** SHA-256 of the text: the name of the receipt in the next one. */
  sha256: string
  envelope: Envelope
}

/** A part of a receipt that can be shortened. */
const shortened = ['nodes', 'checks', 'approvals', 'scripts', 'signers'] as const

/** Returns a list with the digest of its items. */
export function listOf<T>(items: readonly T[]): ShortenedList<T> {
  const lines = items.map(item => `${JSON.stringify(item)}\n`).join('')
  return { count: items.length, sha256: sha256(Buffer.from(lines)).toString('hex'), items: [...items] }
}

/** Returns the text of a receipt. Lists are shortened, the longest first, until it fits (`maxReceiptBytes`). */
export function receiptText(statement: ReceiptStatement, signer: ReceiptSigner): string {
  let { receipt } = statement
  for (;;) {
    const text = signedText({ type: receiptType, subjects: statement.subjects, predicate: receipt }, signer)
    if (Buffer.byteLength(text) <= maxReceiptBytes) return text
    const shorter = shortenedReceipt(receipt)
    if (shorter === null) throw new Error(`The receipt of deployment ${receipt.deployment.id} is too long`)
    receipt = shorter
  }
}

/** Returns the receipt with the longest list halved, then without its target; null if nothing is left to shorten. */
function shortenedReceipt(receipt: Receipt): Receipt | null {
  const lengthOf = (name: (typeof shortened)[number]): number => JSON.stringify(receipt[name]?.items ?? []).length
  const [longest] = [...shortened].sort((a, b) => lengthOf(b) - lengthOf(a))
  const found = longest === undefined ? null : receipt[longest]
  if (longest !== undefined && found !== null && found.items.length > 0) {
    const items = found.items.slice(0, Math.floor(found.items.length / 2))
    return { ...receipt, [longest]: { ...found, items } }
  }
  return receipt.target === null ? null : { ...receipt, target: null }
}

/** Returns the Simple Verification Result of a receipt, for programs that know only this type. */
export function resultText({ subjects, receipt }: ReceiptStatement, signer: ReceiptSigner): string {
  const predicate = {
    verifier: { id: `urn:svc:server:${receipt.server.origin}`, policies: [] },
    timeCreated: receipt.deployment.issuedAt,
    properties: propertiesOf(receipt)
  }
  return signedText({ type: resultType, subjects, predicate }, signer)
}

function signedText(
  { type, subjects, predicate }: { type: string; subjects: unknown; predicate: unknown },
  signer: ReceiptSigner
): string {
  const statement = { _type: statementHead, subject: subjects, predicateType: type, predicate }
  const payload = Buffer.from(JSON.stringify(statement))
  const sig = Buffer.from(signer.sign(signedBytes(statementType, payload)), 'base64')
  return envelopeText({ payloadType: statementType, payload, signatures: [{ keyid: signer.fingerprint, sig }] })
}

/**
 * Reads a receipt. Refuses (`invalid`, `bad_receipt`) any other text, and each text that is not in the form in which a
 * server writes it. The signature is not verified.
 */
export function readReceipt(text: string): ReadReceipt {
  if (text.length > maxReceiptBytes) throw badReceipt(`it has more than ${maxReceiptBytes} bytes`)
  try {
    return read(text)
  } catch (error) {
    if (error instanceof SyntaxError) throw badReceipt('it is not JSON', error)
    if (error instanceof Refusal && error.code !== 'bad_receipt') throw badReceipt(error.message, error)
    throw error
  }
}

function read(text: string): ReadReceipt {
  const envelope = readEnvelope(JSON.parse(text))
  const { payloadType, payload, signatures } = envelope
  const otherForm = 'it is not in the form in which a server writes it: its text was changed'
  if (envelopeText(envelope) !== text) throw badReceipt(otherForm)
  if (payloadType !== statementType) throw badReceipt('its payload is not an in-toto statement')
  const json = payload.toString()
  const value: unknown = JSON.parse(json)
  if (JSON.stringify(value) !== json || !Buffer.from(json).equals(payload)) throw badReceipt(otherForm)
  const { subject: subjects, predicate: receipt } = statementReader(value, 'receipt')
  const [signature] = signatures
  if (signatures.length !== 1 || signature === undefined) throw badReceipt('it does not have one signature')
  if (signature.keyid !== receipt.server.key || keyNameOf(receipt) !== receipt.server.key)
    throw badReceipt('it names another key than the one that signed it')
  // Absent digests of subjects are not undefined, so that a statement is written as it was read.
  return { text, sha256: sha256(Buffer.from(text)).toString('hex'), envelope, subjects: subjects.map(plain), receipt }
}

/** Returns whether a receipt has a valid signature of a key. */
export function isReceiptOf({ envelope }: ReadReceipt, key: KeyObject): boolean {
  const [signature] = envelope.signatures
  return signature !== undefined && isSignedBy(envelope, signature, key)
}

function keyNameOf({ server }: Receipt): string | null {
  const key = parsePublicKey(server.publicKey)
  return key === null ? null : fingerprintOf(key)
}

function plain<T extends object>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T
}

const noReceipt = 'This is not a receipt of a deployment: '

/** Returns the refusal of a text that is not a receipt. */
export function badReceipt(why: string, cause?: unknown): Refusal {
  return new Refusal('invalid', 'bad_receipt', noReceipt + why, { cause })
}

/** Returns why a text is not a receipt, as the end of another refusal. */
export function whyBad({ message }: Error): string {
  return message.startsWith(noReceipt) ? message.slice(noReceipt.length) : message
}

/* The form of the statement. Every field is required, and no other is accepted. */

const digest = matching(/^[0-9a-f]{64}$/, 'expected a SHA-256 in hexadecimal')
const text = (max: number): Read<string> => line({ max })
const someId = line({ min: 1, max: 200 })
const count = integer(0, Number.MAX_SAFE_INTEGER)
const strict = { strict: true } as const
const digested = { count, sha256: digest }
const maxItems = 1000

function matching(pattern: RegExp, why: string): Read<string> {
  return checked(line({ max: 200 }), given => (pattern.test(given) ? null : why))
}

function shortenedList<T>(item: Read<T>): Read<ShortenedList<T>> {
  return object({ ...digested, items: list(item, { max: maxItems }) }, strict)
}

/** A constant. */
function always<const T extends string>(value: T): Read<T> {
  return oneOf([value])
}

/** Refuses an absent field, which `nullable` alone takes for null. */
function orNull<T>(read: Read<T>): Read<T | null> {
  const given = nullable(read)
  return Object.assign(
    (value: unknown, field: string) => {
      if (value === undefined) throw invalid(field, `"${field}" is missing`)
      return given(value, field)
    },
    { schema: given.schema, example: given.example }
  )
}

const receiptReader: Read<Receipt> = object(
  {
    server: object(
      {
        key: matching(/^SHA256:[A-Za-z0-9+/]{43}$/, 'expected a fingerprint'),
        publicKey: matching(/^[A-Za-z0-9+/]{43}=$/, 'expected 32 bytes in base64'),
        origin: someId,
        version: text(100)
      },
      strict
    ),
    chain: object({ number: integer(1, Number.MAX_SAFE_INTEGER), previous: orNull(digest) }, strict),
    project: object({ id: someId, name: text(400) }, strict),
    target: orNull(text(maxPathLength)),
    deployment: object(
      {
        id: someId,
        status: oneOf(['success', 'failed']),
        failedStep: orNull(oneOf(stepNames)),
        placed: orNull(count),
        startedAt: instant,
        endedAt: instant,
        issuedAt: instant,
        late: flag
      },
      strict
    ),
    actor: object({ name: text(400), tokenId: orNull(text(200)) }, strict),
    origin: object(
      {
        trigger: oneOf(triggerSources),
        exact: flag,
        rollbackOf: orNull(text(200)),
        undoOf: orNull(text(200)),
        promotedFrom: orNull(text(200)),
        commit: orNull(text(200))
      },
      strict
    ),
    reverted: orNull(object({ at: instant, reason: oneOf(revertReasons) }, strict)),
    files: orNull(
      object(
        {
          placed: count,
          added: object(digested, strict),
          changed: object(digested, strict),
          removed: object(digested, strict)
        },
        strict
      )
    ),
    scripts: shortenedList(
      object(
        {
          step: oneOf(scriptSteps),
          source: oneOf(['platform', 'client']),
          sha256: digest,
          exitCode: orNull(integer(-1, 1024)),
          background: flag
        },
        strict
      )
    ),
    checks: shortenedList(object({ check: text(10_000), ok: flag, attempts: count }, strict)),
    approvals: shortenedList(
      object(
        {
          decision: oneOf(['approved', 'rejected']),
          name: text(400),
          tokenId: orNull(text(200)),
          at: instant,
          treeSha256: orNull(digest)
        },
        strict
      )
    ),
    nodes: orNull(shortenedList(object({ node: text(400), phase: oneOf(nodePhases) }, strict))),
    signers: shortenedList(object({ name: text(400), fingerprint: text(200) }, strict)),
    audit: orNull(object({ size: count, root: digest }, strict))
  },
  strict
)

const statementReader = object(
  {
    _type: always(statementHead),
    subject: list(
      object(
        { name: text(400), digest: object({ sha256: digest, dirHash: optional(digest) as Read<string> }, strict) },
        strict
      ),
      { min: 1, max: 2 }
    ),
    predicateType: always(receiptType),
    predicate: receiptReader
  },
  strict
)
