import { statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { packTarget, writeToFile } from '../../../lib/carry/transfer/pack-target.js'
import type { ZipSource } from '../../../lib/core/archive/source.js'

const options = { ignore: [], ignoreBuiltin: false }

t.test('packs the files of a target except ignored ones', async t => {
  const directory = t.testdir({ www: { 'index.html': 'page', 'notes.md': 'notes', sub: { a: 'a' } } })
  const seen: string[] = []
  const path = join(directory, 'out.zip')
  const write = (sources: ZipSource[]): Promise<number> => {
    seen.push(...sources.filter(({ kind }) => kind === 'file').map(({ path }) => path))
    return writeToFile(path, sources, undefined)
  }
  const packed = await packTarget({ ...options, target: join(directory, 'www'), ignore: ['*.md'] }, write)
  t.same(seen.sort(), ['index.html', 'sub/a'])
  t.same(packed, { bytes: statSync(path).size, note: null })
  t.equal(statSync(path).mode & 0o777, 0o600)
  await t.rejects(writeToFile(path, [], undefined), { code: 'EEXIST' }, 'the file must be new')
})

t.test('returns a note for a target that is missing, empty or a file', async t => {
  const directory = t.testdir({ empty: {}, file: 'x' })
  for (const name of ['none', 'empty', 'file']) {
    const never = async (): Promise<number> => t.fail('nothing is written') as never
    const { bytes, note } = await packTarget({ ...options, target: join(directory, name) }, never)
    t.equal(bytes, 0)
    t.type(note, 'string', name)
  }
})

t.test('passes on an abort and an error of writing', async t => {
  const target = t.testdir({ a: 'a' })
  const fail = async (): Promise<number> => {
    throw new Error('no disk')
  }
  await t.rejects(packTarget({ ...options, target }, fail), { message: 'no disk' })
  const signal = AbortSignal.abort(new Error('enough'))
  await t.rejects(packTarget({ ...options, target, signal }, fail), { message: 'enough' })
})
