import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createCheckpointFile } from '../../lib/audit/checkpoint-file.js'

function aFile(place: string) {
  const errors: unknown[] = []
  return { errors, file: createCheckpointFile({ place: () => place, onError: error => void errors.push(error) }) }
}

t.test('replaces the file with each note', async t => {
  const directory = t.testdir()
  const { file, errors } = aFile(join(directory, 'note'))
  await Promise.all([file.write('one\n'), file.write('two\n')])
  t.equal(readFileSync(join(directory, 'note'), 'utf8'), 'two\n')
  t.same(readdirSync(directory), ['note'])
  t.same(errors, [])
})

t.test('appends each note after ">>"', async t => {
  const path = join(t.testdir(), 'notes')
  const { file } = aFile(`>>${path}`)
  await Promise.all([file.write('one\n'), file.write('two\n')])
  t.equal(readFileSync(path, 'utf8'), 'one\n\ntwo\n\n')
})

t.test('writes nothing without a path, and reports an error without rejecting', async t => {
  await aFile('').file.write('one\n')
  const { file, errors } = aFile(join(t.testdir(), 'missing', 'note'))
  await file.write('one\n')
  t.match(errors, [{ code: 'ENOENT' }])
})
