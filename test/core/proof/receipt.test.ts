import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { envelopeText, readEnvelope } from '../../../lib/core/proof/statement.js'
import {
  isReceiptOf,
  listOf,
  maxReceiptBytes,
  readReceipt,
  receiptText,
  resultText
} from '../../../lib/core/proof/receipt.js'
import { aChain, aStatement, newTestKey } from '../../support/receipts.js'
import { isThorough } from '../../support/thorough.js'

const key = newTestKey()
const [text = ''] = aChain(key, [1])
const refused = (given: string): string => {
  try {
    readReceipt(given)
  } catch (error) {
    if (error instanceof Refusal && error.code === 'bad_receipt') return error.message
    throw error
  }
  return 'read'
}
/** Returns the text of the receipt with another payload, signed by the key. */
function signedAgain(change: (statement: Record<string, any>) => unknown): string {
  const statement = JSON.parse(readEnvelope(JSON.parse(text)).payload.toString()) as Record<string, any>
  const payload = Buffer.from(JSON.stringify(change(statement) ?? statement))
  const pae = Buffer.concat([Buffer.from(`DSSEv1 28 application/vnd.in-toto+json ${payload.length} `), payload])
  const sig = Buffer.from(key.sign(pae), 'base64')
  return envelopeText({
    payloadType: 'application/vnd.in-toto+json',
    payload,
    signatures: [{ keyid: key.fingerprint, sig }]
  })
}

t.test('a receipt is read as it was written', async t => {
  const read = readReceipt(text)
  t.ok(isReceiptOf(read, key.publicKey))
  t.notOk(isReceiptOf(read, newTestKey().publicKey))
  t.match(read, { receipt: { project: { name: 'shop' } }, subjects: [{ name: 'shop' }] })
  t.equal(
    signedAgain(() => undefined),
    text,
    'it has one form'
  )
})

t.test('every other form is refused, also if the server signed it', async t => {
  const cases: Array<[what: string, text: string, why: RegExp]> = [
    ['nothing', '', /not JSON/],
    ['without its newline', text.trimEnd(), /text was changed/],
    ['with a space', text.replace(',', ', '), /text was changed/],
    ['two newlines', `${text}\n`, /text was changed/],
    ['another field in the envelope', text.replace('{', '{"a":1,'), /text was changed/],
    ['too long', `${' '.repeat(maxReceiptBytes)}${text}`, /more than 8192/],
    ['another field', signedAgain(s => void (s['more'] = 1)), /"receipt.more" is unknown/],
    ['another field inside', signedAgain(s => void (s['predicate'].deployment.more = 1)), /more" is unknown/],
    ['a missing field', signedAgain(s => void delete s['predicate'].reverted), /reverted" is missing/],
    ['another status', signedAgain(s => void (s['predicate'].deployment.status = 'fine')), /expected one of/],
    ['another type', signedAgain(s => void (s['predicateType'] = 'urn:svc:deployment:v2')), /expected one of/],
    ['no subject', signedAgain(s => void (s['subject'] = [])), /at least 1/],
    ['another key', signedAgain(s => void (s['predicate'].server.publicKey = newTestKey().bytes)), /another key/],
    ['no object', signedAgain(() => []), /expected an object/],
    ['two signatures', text.replace(/("signatures":\[)(.*)\]/, '$1$2,$2]'), /one signature/],
    ['the key id of another', text.replace(key.fingerprint, newTestKey().fingerprint), /another key/]
  ]
  for (const [what, given, why] of cases) t.match(refused(given), why, what)
  t.match(refused(text.replace('vnd.in-toto+json', 'vnd.in-toto+xml_')), /not an in-toto statement/)
})

t.test('a receipt has at most 8 KB', async t => {
  const name = '店'.repeat(200)
  const nodes = Array.from({ length: 500 }, (_, n) => ({ node: `node-${n}-${'x'.repeat(50)}`, phase: 'good' as const }))
  const check = { check: `GET ${'y'.repeat(296)}`, ok: true, attempts: 1 }
  const { subjects, receipt } = aStatement(key, 1, {
    project: { id: 'proj_shop', name },
    target: `/${'d'.repeat(4000)}`,
    nodes: listOf(nodes),
    checks: listOf(Array.from({ length: 60 }, () => check))
  })
  const files = { placed: 0, added: count0, changed: count0, removed: count0 }
  const made = receiptText({ subjects, receipt: { ...receipt, files } }, key)
  t.ok(Buffer.byteLength(made) <= maxReceiptBytes)
  const read = readReceipt(made).receipt
  t.match(read, { target: null, nodes: { count: 500, sha256: listOf(nodes).sha256 }, checks: { count: 60 } })
  t.ok((read.nodes?.items.length ?? 500) < 500)
  t.equal(read.project.name, name)
})

const count0 = { count: 0, sha256: '0'.repeat(64) }

t.test('a verification result is a statement of its own', async t => {
  const result = JSON.parse(readEnvelope(JSON.parse(resultText(readReceipt(text), key))).payload.toString())
  t.strictSame(result.predicate, {
    verifier: { id: 'urn:svc:server:svc/0123456789abcdef/audit', policies: [] },
    timeCreated: aStatement(key, 1).receipt.deployment.issuedAt,
    properties: []
  })
  t.equal(result.predicateType, 'https://in-toto.io/attestation/svr/v0.2')
  t.match(refused(resultText(readReceipt(text), key)), /predicateType/, 'it is not a receipt')
})

t.test('changed receipts are refused, each within 50 ms', async t => {
  const count = isThorough ? 100_000 : 3_000
  let seed = 20261130
  const random = (below: number): number => {
    seed = (Math.imul(seed, 1103515245) + 12345) & 0x7fffffff
    return seed % below
  }
  const payload = readEnvelope(JSON.parse(text)).payload.toString()
  const bits = (given: string): string => {
    const bytes = Buffer.from(given)
    for (let times = 1 + random(3); times > 0; times--) {
      const at = random(bytes.length)
      bytes[at] = (bytes[at] as number) ^ (1 << random(8))
    }
    return bytes.toString('latin1')
  }
  const cut = (given: string): string => {
    const at = random(given.length)
    return given.slice(0, at) + given.slice(at + 1 + random(40))
  }
  const doubled = (given: string): string => {
    const at = random(given.length)
    return given.slice(0, at) + given.slice(at, at + 1 + random(200)) + given.slice(at)
  }
  const odd = ['[[[[[[[[', '{"__proto__":', '1e999', '\\ud800', '"', '-0', '\u0000', 'null', '99999999999999999999']
  const put = (given: string): string => {
    const at = random(given.length)
    return given.slice(0, at) + odd[random(odd.length)] + given.slice(at + random(4))
  }
  const kinds = [bits, cut, doubled, put]
  let [accepted, longestMs] = [0, 0]
  // What is compiled at first use is not measured.
  for (let n = 0; n < 200; n++) refused(bits(text))
  for (let n = 0; n < count; n++) {
    const change = kinds[n % kinds.length] as (given: string) => string
    // Half of them change what is inside, so that the parser of the statement is reached.
    const inside = Buffer.from(change(payload)).toString('base64')
    const given = n % 8 < 4 ? change(text) : text.replace(/"payload":"[^"]*"/, `"payload":"${inside}"`)
    if (given === text) continue
    // Of this process: other programs of a busy machine are not counted.
    const before = process.cpuUsage()
    try {
      if (isReceiptOf(readReceipt(given), key.publicKey)) accepted++
    } catch (error) {
      if (!(error instanceof Refusal && error.code === 'bad_receipt')) throw error
    }
    const { user, system } = process.cpuUsage(before)
    longestMs = Math.max(longestMs, (user + system) / 1000)
  }
  t.equal(accepted, 0, `none of ${count} is accepted`)
  t.ok(longestMs < 50, `the slowest took ${longestMs.toFixed(1)} ms`)
})
