import t from 'tap'
import { Readable } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { receiveTree } from '../../lib/api/tree-body.js'
import { createBudget } from '../../lib/base/budget.js'
import { Refusal } from '../../lib/base/errors.js'
import { createSpool } from '../../lib/base/spool.js'

const refuse = (): Refusal => new Refusal('too_many', 'too_much_at_once', 'Too much')
const budget = createBudget({ all: 100 * 1024 * 1024, each: { caller: 70 * 1024 * 1024 }, refuse })
const spool = createSpool({ directory: mkdtempSync(join(tmpdir(), 'svc-tree-')), budget })

async function read(bytes: Buffer | Readable, headers: Record<string, string> = {}): Promise<Buffer> {
  const chunks: Buffer[] = []
  if (Buffer.isBuffer(bytes)) for (let at = 0; at < bytes.length; at += 1000) chunks.push(bytes.subarray(at, at + 1000))
  const body = Buffer.isBuffer(bytes) ? Readable.from(chunks) : bytes
  const request = { headers: { 'content-type': 'text/vnd.svc-tree', ...headers }, body, caller: 'me', hold() {} }
  const tree = await receiveTree(request, spool)
  try {
    return await tree.read()
  } finally {
    await tree.discard()
  }
}

const gzip = { 'content-encoding': 'gzip' }
const text = Buffer.from(Array.from({ length: 10_000 }, (_, i) => `line ${i * 7919}\n`).join(''))

t.test('reads a body, compressed or not', async t => {
  t.ok((await read(text)).equals(text))
  t.ok((await read(gzipSync(text), gzip)).equals(gzipSync(text)), 'as it was sent')
  t.ok((await read(text, { 'content-type': 'Text/VND.svc-tree; charset=utf-8' })).equals(text))
  t.equal(budget.held(), 0, 'everything is given back')
})

t.test('refuses other types and codings, and too much data', async t => {
  await t.rejects(read(text, { 'content-type': 'text/plain' }), { code: 'unsupported_type' })
  await t.rejects(read(text, { 'content-encoding': 'deflate' }), { code: 'unsupported_type' })
  await t.rejects(read(text, gzip), { code: 'broken_gzip' })
  const piece = Buffer.alloc(1024 * 1024)
  const large = Readable.from(Array.from({ length: 65 }, () => piece))
  await t.rejects(read(large), { code: 'tree_too_large', message: '64 MB' })
  t.equal(budget.held(), 0, 'everything is given back')
})

t.test('a body that fails fails the reading with its error', async t => {
  const lost = new Refusal('invalid', 'aborted', 'The connection was closed')
  for (const headers of [gzip, {}]) {
    const body = new Readable({ read: () => {} })
    const reading = read(body, headers)
    body.push(gzipSync(text).subarray(0, 100))
    setImmediate(() => body.destroy(lost))
    await t.rejects(reading, lost)
  }
  t.equal(budget.held(), 0, 'everything is given back')
})
