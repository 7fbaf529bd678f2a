import t from 'tap'
import {
  readReceipts,
  receiptsHeader,
  verifyReceipts,
  readTrustedKey,
  successorsOf
} from '../../../lib/core/proof/receipt-chain.js'
import type { Receipt } from '../../../lib/model/receipt.js'
import type { SignedHubKey } from '../../../lib/model/fleet-wire.js'
import { aChain, aStatement, newTestKey, successorOf, type TestKey } from '../../support/receipts.js'
import { generateKeyPairSync } from 'node:crypto'
import { createSigner } from '../../../lib/core/audit/signed-note.js'
import { fingerprintOf, sshPublicKey } from '../../../lib/core/proof/statement.js'
import { rawKey } from '../../../lib/core/proof/keys.js'
import { parsePublicKey, rawPublicKey } from '../../../lib/base/digests.js'

const key = newTestKey()
const other = newTestKey()

interface Trusting {
  by?: TestKey[]
  successors?: SignedHubKey[]
  revoked?: string[]
}

function verified(texts: readonly string[], { by = [key], successors = [], revoked = [] }: Trusting = {}) {
  const { receipts } = readReceipts(texts.join(''), 'file')
  const keys = by.map(({ fingerprint, publicKey }) => ({ fingerprint, key: publicKey }))
  return verifyReceipts(receipts, { keys, successors, revoked: new Set(revoked) })
}

const five = aChain(key, [1, 2, 3, 4, 5])
const at = (index: number): string => five[index] as string

t.test('a whole chain is right, in any order', async t => {
  const { chains, faults, notes } = verified(five)
  t.strictSame([faults, notes], [[], []])
  t.match(chains, [{ project: 'shop', first: 1, last: 5 }])
  t.strictSame(verified(five.toReversed()).faults, [])
})

t.test('each attack is told', async t => {
  const forked = aChain(key, [4, 5], { previous: readReceipts(at(2), 'x').receipts[0]?.sha256 ?? null, patch: renamed })
  const swapped = aChain(key, [3], { previous: 'a'.repeat(64), patch: renamed })[0] as string
  const payload = (text: string): string => JSON.parse(text).payload as string
  const changed = Buffer.from(payload(at(1)), 'base64')
    .toString()
    .replace('"success"', '"failed"')
  const status = at(1).replace(payload(at(1)), Buffer.from(changed).toString('base64'))
  const tree = at(1).replace(
    payload(at(1)),
    Buffer.from(
      Buffer.from(payload(at(1)), 'base64')
        .toString()
        .replace(/[0-9a-f]{64}/, 'b'.repeat(64))
    ).toString('base64')
  )
  const cases: Array<[what: string, texts: string[], why: RegExp]> = [
    ['the key of another server', aChain(other, [1]), /you do not trust it/],
    ['a changed status', [at(0), status], /signature of receipt 2 .* is not valid/],
    ['another tree', [at(0), tree], /signature of receipt 2 .* is not valid/],
    ['a removed receipt', [at(0), at(2)], /Receipt 2 is missing between receipt 1 .* and receipt 3/],
    ['several removed receipts', [at(0), at(4)], /The receipts 2 to 4 are missing/],
    ['an exchanged receipt', [at(1), swapped, at(3)], /receipt 3 .* does not follow receipt 2/],
    [
      'two receipts of a deployment',
      [at(0), ...aChain(key, [2], { previous: hash(at(0)), patch: first })],
      /has two receipts/
    ],
    ['a restored backup', [...five, ...forked], /The chain forks: receipt 4 .* and receipt 4/],
    [
      'a restored backup, of which only the end is given',
      [at(0), at(1), at(2), at(3), forked[1] as string],
      /receipt 5 .* does not follow receipt 4/
    ],
    [
      'a shortened audit log',
      [at(0), ...aChain(key, [2], { previous: hash(at(0)), patch: shorter })],
      /audit log of the server was changed/
    ],
    [
      'a first receipt that names one before it',
      aChain(key, [1], { previous: 'c'.repeat(64) }),
      /is the first of its chain/
    ]
  ]
  for (const [what, texts, why] of cases) t.match(verified(texts).faults, [why], what)
  t.equal(verified([at(0), ...aChain(other, [2], { previous: hash(at(0)) })]).faults.length, 1)
})

const hash = (text: string): string => readReceipts(text, 'x').receipts[0]?.sha256 as string
const of = (number: number): Receipt => aStatement(key, number).receipt
const renamed = (number: number): Partial<Receipt> => ({
  deployment: { ...of(number).deployment, id: `dep_x${number}` }
})
const first = (): Partial<Receipt> => ({ deployment: of(1).deployment })
const shorter = (): Partial<Receipt> => ({ audit: { size: 3, root: 'd'.repeat(64) } })
const otherProject = (): Partial<Receipt> => ({ project: { id: 'proj_blog', name: 'blog' } })
const early = (number: number): Partial<Receipt> => ({
  deployment: { ...of(number).deployment, issuedAt: '2020-01-01T00:00:00.000Z' }
})

t.test('what is not wrong but should be known is a note', async t => {
  t.match(verified(five.slice(2)), { faults: [], notes: [/begins with receipt 3 .*: the 2 before it were not given/] })
  t.match(verified([...five, at(2)]), { faults: [], notes: [/receipt 3 .* was given twice/] })
  const back = aChain(key, [2], { previous: hash(at(0)), patch: early })
  t.match(verified([at(0), ...back]), { faults: [], notes: [/clock of the server was set back/] })
})

t.test('what was kept before is continued, and ends no earlier now', async t => {
  const trust = {
    keys: [{ fingerprint: key.fingerprint, key: key.publicKey }],
    successors: [],
    revoked: new Set<string>()
  }
  const read = (texts: readonly string[], from: string) => readReceipts(texts.join(''), from).receipts
  const after = (received: readonly string[], previous: readonly string[]) =>
    verifyReceipts(read(received, 'now'), trust, read(previous, 'before'))
  t.match(after(five.slice(3), five.slice(0, 3)), { faults: [], chains: [{ first: 1, last: 5 }] })
  t.match(after(five, five.slice(0, 3)).faults, [])
  t.match(after(five.slice(0, 3), five).faults, [/The chain ends with receipt 3 .*, and receipt 5 .* was there before/])
  t.match(after(five.slice(4), five.slice(0, 3)).faults, [/Receipt 4 is missing/])
  const blog = aChain(key, [1], { patch: otherProject })
  t.match(after(blog, five).faults, [], 'another project is not judged')
})

t.test('the receipt of another project is part of another chain', async t => {
  const blog = aChain(key, [1], { patch: otherProject })
  const { chains, faults } = verified([...five, ...blog])
  t.strictSame(faults, [])
  t.match(chains, [{ project: 'shop' }, { project: 'blog', first: 1, last: 1 }])
  const inserted = aChain(key, [3], { previous: hash(at(1)), patch: otherProject })
  t.match(verified([at(0), at(1), ...inserted, at(3)]).faults, [/Receipt 3 is missing/])
})

t.test('a new key is accepted by who knows the one before', async t => {
  const after = aChain(other, [6, 7], { previous: hash(at(4)) })
  const successors = [successorOf(key, other)]
  t.strictSame(verified([...five, ...after], { successors }).faults, [])
  t.strictSame(verified([...five, ...after], { by: [{ ...key, publicKey: key.publicKey }], successors }).faults, [])
  t.equal(verified([...five, ...after]).faults.length, 2, 'not without the statement')
  t.equal(
    verified([...five, ...after], { by: [other], successors }).faults.length,
    5,
    'a key says nothing of earlier ones'
  )
  const revoked = verified([...five, ...after], { by: [other], successors, revoked: [key.fingerprint] })
  t.match(
    revoked.faults,
    Array.from({ length: 5 }, () => /is revoked/)
  )
  t.equal(
    verified(after, { successors, revoked: [key.fingerprint] }).faults.length,
    2,
    'a revoked key names no successor'
  )
})

t.test('a fingerprint is enough, because receipts contain the key', async t => {
  const { receipts } = readReceipts(five.join(''), 'file')
  const trust = (fingerprint: string) => ({
    keys: [{ fingerprint, key: null }],
    successors: [],
    revoked: new Set<string>()
  })
  t.strictSame(verifyReceipts(receipts, trust(key.fingerprint)).faults, [])
  t.equal(verifyReceipts(receipts, trust(other.fingerprint)).faults.length, 5)
})

t.test('a file of receipts is read line by line', async t => {
  const successors = [successorOf(key, other)]
  const read = readReceipts(receiptsHeader(successors) + five.join(''), 'out')
  t.strictSame(read.successors, successors)
  t.equal(read.receipts.length, 5)
  const bad: Array<[text: string, why: RegExp]> = [
    ['', /out contains none/],
    [`${at(0)}\n`, /out, line 2: .*not JSON/],
    [at(0) + at(1).trimEnd(), /out, line 2: .*changed/],
    ['{"svcReceipts":1}\n', /line 1/],
    ['{"svcReceipts":"1","successors":[],"more":1}\n', /unknown/],
    ['{"svcReceipts":\n', /not JSON/],
    [`{"svcReceipts":"1","successors":[${'"a",'.repeat(3_000_000)}]}\n`, /too long/]
  ]
  for (const [text, why] of bad) t.throws(() => readReceipts(text, 'out'), { code: 'bad_receipt', message: why })
})

t.test('a chain of 1,000 is verified in less than a second', async t => {
  const texts = aChain(
    key,
    Array.from({ length: 1000 }, (_, index) => index + 1)
  ).join('')
  const before = process.cpuUsage()
  const { receipts } = readReceipts(texts, 'file')
  const trust = {
    keys: [{ fingerprint: key.fingerprint, key: key.publicKey }],
    successors: [],
    revoked: new Set<string>()
  }
  t.strictSame(verifyReceipts(receipts, trust).faults, [])
  // Of this process: other programs of a busy machine are not counted.
  const { user, system } = process.cpuUsage(before)
  const tookMs = Math.round((user + system) / 1000)
  t.comment(`${tookMs} ms`)
  // The figure of a free machine is half of it: beside other programs, the processor itself is slower.
  t.ok(tookMs < 2000, `it took ${tookMs} ms`)
})

t.test('a key is read in each form in which people hand it on', async t => {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  const fingerprint = fingerprintOf(publicKey)
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
  const forms = {
    'keys/server.pub': `${createSigner('svc/0123/audit', pem).verifierKey}\n`,
    PEM: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    SSH: `ssh-ed25519 ${sshPublicKey(publicKey).toString('base64')} svc@example`
  }
  for (const [what, form] of Object.entries(forms)) {
    const read = readTrustedKey(form)
    t.equal(read.fingerprint, fingerprint, what)
    t.equal(read.key && fingerprintOf(read.key), fingerprint, what)
  }
  t.strictSame(readTrustedKey(` ${fingerprint}\n`), { fingerprint, key: null })
  const other = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey
  const bad = [
    '',
    'SHA256:short',
    pem,
    other.export({ type: 'spki', format: 'pem' }).toString(),
    'ssh-rsa AAAA',
    `ssh-ed25519 ${Buffer.concat([Buffer.from('before'), sshPublicKey(publicKey)]).toString('base64')}`,
    `ssh-ed25519 ${sshPublicKey(rawKey(Buffer.alloc(32))).toString('base64')}`,
    'a+b+c'
  ]
  for (const text of bad) t.throws(() => readTrustedKey(text), { code: 'bad_key' }, text.slice(0, 30))
  t.equal(parsePublicKey('AAAA'), null)
  t.equal(
    rawPublicKey(parsePublicKey(rawPublicKey(publicKey).toString('base64')) as never).toString('base64'),
    rawPublicKey(publicKey).toString('base64')
  )
})

t.test('a key is followed by those that it names, and by theirs', async t => {
  const [first, second, third, other] = [newTestKey(), newTestKey(), newTestKey(), newTestKey()]
  const statements = [successorOf(second, third), successorOf(first, second)]
  const names = (keys: Parameters<typeof fingerprintOf>[0][]): string[] => keys.map(fingerprintOf)
  t.strictSame(names(successorsOf(first.publicKey, statements)), [second.fingerprint, third.fingerprint])
  t.strictSame(names(successorsOf(third.publicKey, statements)), [], 'a key says nothing about earlier ones')
  t.strictSame(names(successorsOf(other.publicKey, statements)), [])
  const forged = { hubKey: other.bytes, signature: successorOf(first, second).signature }
  t.strictSame(names(successorsOf(first.publicKey, [forged])), [], 'a signature is that of its key')
  t.strictSame(names(successorsOf(first.publicKey, statements, new Set([second.fingerprint]))), [second.fingerprint])
  t.strictSame(names(successorsOf(first.publicKey, [successorOf(first, first)])), [])
})
