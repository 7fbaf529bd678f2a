import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { FileHandle } from 'node:fs/promises'
import { throughStream, writeTo } from '../../lib/api/write-to.js'
import type { Caller } from '../../lib/auth/bearer.js'
import { Refusal } from '../../lib/base/errors.js'
import type { Reply, Sink } from '../../lib/http/core/route.js'

const local = { role: 'local' } as Caller

/** Returns all bytes that a streaming reply writes. */
async function linesOf(reply: Reply): Promise<object[]> {
  if (reply.kind !== 'stream') throw new Error(`A reply of the kind "${reply.kind}"`)
  const pieces: string[] = []
  const sink = { write: async (piece: string) => void pieces.push(piece), sendHead() {}, signal: signal() }
  await reply.run(sink as Sink)
  return pieces
    .join('')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line) as object)
}

const signal = (): AbortSignal => new AbortController().signal
const never = async (): Promise<object> => {
  throw new Error('It was called')
}

t.test('writes to an empty file and reports progress', async t => {
  const path = join(t.testdir({}), 'out')
  writeFileSync(path, '')
  const work = async (
    file: FileHandle,
    { onBegin, onProgress }: { onBegin(n: number): void; onProgress(n: number): void }
  ) => {
    onBegin(4)
    onProgress(2)
    onProgress(3)
    await file.write('four')
    return { files: 1 }
  }
  t.same(await linesOf(await writeTo(path, local, work)), [
    { event: 'begin', expectedBytes: 4 },
    { event: 'progress', bytes: 2 },
    { event: 'done', files: 1 }
  ])
  t.equal(readFileSync(path, 'utf8'), 'four')
})

t.test('a refusal becomes an error line, a bug does not', async t => {
  const path = join(t.testdir({}), 'out')
  writeFileSync(path, '')
  const refuse = async (): Promise<object> => {
    throw new Refusal('conflict', 'busy', 'Cannot do it')
  }
  t.match(await linesOf(await writeTo(path, local, refuse)), [{ event: 'error', error: /Cannot do it/ }])
  const bug = async (): Promise<object> => {
    throw new TypeError('a bug')
  }
  await t.rejects(linesOf(await writeTo(path, local, bug)), TypeError)
})

t.test('only the operator on this machine may name a file, which must be empty and not a link', async t => {
  const directory = t.testdir({ full: 'x', folder: {}, empty: '', link: t.fixture('symlink', 'empty') })
  await t.rejects(writeTo('/tmp/any', { role: 'admin' } as Caller, never), { code: 'forbidden' })
  for (const name of ['full', 'folder', 'none', 'link']) {
    const reply = await writeTo(join(directory, name), local, never)
    await t.rejects(linesOf(reply), { code: 'cannot_write_there' }, name)
  }
  await t.rejects(linesOf(await writeTo('relative', local, never)), { code: 'cannot_write_there' })
})

t.test('throughStream resolves when the sink has taken everything, and rejects if the client disconnects', async t => {
  const pieces: string[] = []
  const slow = { write: async (piece: Uint8Array) => void pieces.push(String(piece)), sendHead() {}, signal: signal() }
  await throughStream(slow as unknown as Sink, async out => {
    out.write('a')
    out.write('b')
  })
  t.same(pieces, ['a', 'b'])
  const gone = {
    ...slow,
    write: async () => {
      throw new Error('gone')
    }
  }
  await t.rejects(
    throughStream(gone as unknown as Sink, async out => void out.write('a')),
    { message: 'gone' }
  )
})
