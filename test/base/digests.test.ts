import t from 'tap'
import { createHash, randomBytes, generateKeyPairSync, sign, verify, type KeyObject } from 'node:crypto'
import { join } from 'node:path'
import {
  crc32,
  fingerprintOf,
  isIdOf,
  namedById,
  randomIds,
  sha256,
  sha256Base64,
  sha256OfFile,
  openSigningKey,
  parsePublicKey
} from '../../lib/base/digests.js'
import { crc32 as tableCrc32 } from '../../lib/base/shared/zip-records.js'
import { chmodSync, statSync, writeFileSync } from 'node:fs'
import { Refusal } from '../../lib/base/errors.js'

t.test('digests bytes of any length', async t => {
  for (const size of [0, 1, 63, 64, 100_000]) {
    const bytes = Buffer.alloc(size, 'abc')
    t.equal(sha256Base64(bytes), sha256(bytes).toString('base64'))
    t.equal(sha256(bytes).toString('hex'), createHash('sha256').update(bytes).digest('hex'))
  }
})

t.test('knows ids, and files that are named by one', async t => {
  const id = randomIds.id('dep_')
  t.ok(isIdOf('dep_', id))
  for (const text of ['', id.slice(1), `${id}a`, `${id}\n`, `${id}/..`, id.toUpperCase(), randomIds.id('upl_')])
    t.notOk(isIdOf('dep_', text), text)
  const pattern = namedById('dep_', 'zip|index')
  t.same([...(pattern.exec(`${id}.index`) ?? [])], [`${id}.index`, id, 'index'])
  for (const name of [id, `${id}.log`, `${id}xzip`, `${id}.zip.tmp`, `a${id}.zip`]) t.notOk(pattern.test(name), name)
})

t.test('digests a file, also one of several reads', async t => {
  const bytes = randomBytes(3_000_000)
  const directory = t.testdir({ empty: '', large: bytes })
  t.equal(await sha256OfFile(join(directory, 'large')), sha256(bytes).toString('hex'))
  t.equal(await sha256OfFile(join(directory, 'empty')), sha256(Buffer.alloc(0)).toString('hex'))
  await t.rejects(sha256OfFile(join(directory, 'missing')), { code: 'ENOENT' })
})

t.test("the runtime's CRC-32 and the table's are the same, also in two pieces", async t => {
  const bytes = randomBytes(10_000)
  t.equal(crc32(bytes), tableCrc32(bytes))
  t.equal(crc32(bytes.subarray(1000), crc32(bytes.subarray(0, 1000))), tableCrc32(bytes))
})

t.test('is the same for equal JSON', async t => {
  t.match(fingerprintOf({ a: 1 }), /^[0-9a-f]{16}$/)
  t.equal(fingerprintOf({ a: 1 }), fingerprintOf({ a: 1 }))
  const values = [undefined, null, {}, { a: 1 }, { a: 2 }, 'undefined']
  t.equal(new Set(values.map(fingerprintOf)).size, values.length)
})

t.test('randomIds.id returns the prefix and 16 lowercase characters, always different', async t => {
  const ids = new Set(Array.from({ length: 1000 }, () => randomIds.id('proj_')))
  t.equal(ids.size, 1000)
  for (const id of ids) t.match(id, /^proj_[a-z0-9]{16}$/)
})

t.test('randomIds.token returns 32 bytes in base64url', async t => {
  t.equal(Buffer.from(randomIds.token(), 'base64url').length, 32)
  t.match(randomIds.token(), /^[\w-]{43}$/)
})

const unusable = (why: string): Refusal => new Refusal('unavailable', 'unusable', why)

t.test('a key is created once, and only its owner can read it', async t => {
  const path = join(t.testdir(), 'keys', 'a.ed25519')
  const made = await openSigningKey(path, unusable)
  const again = await openSigningKey(path, unusable)
  t.equal(again.publicKey, made.publicKey)
  t.equal(statSync(path).mode & 0o777, 0o600)
  const signature = sign(null, Buffer.from('text'), made.key)
  t.ok(verify(null, Buffer.from('text'), parsePublicKey(again.publicKey) as KeyObject, signature))
})

t.test('a file that is no key is refused, and kept', async t => {
  const path = join(t.testdir(), 'a.ed25519')
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  for (const [text, why] of [
    ['no key', /does not contain a key/],
    [privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), /not an Ed25519 key/]
  ] as const) {
    writeFileSync(path, text)
    await t.rejects(openSigningKey(path, unusable), { code: 'unusable', message: why })
  }
  chmodSync(path, 0o600)
})

t.test('a public key is 32 bytes in base64', async t => {
  for (const text of ['', 'AAAA', 'x'.repeat(44), Buffer.alloc(33).toString('base64')]) {
    t.equal(parsePublicKey(text), null, text)
  }
})
