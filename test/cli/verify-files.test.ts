import t from 'tap'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sumLine } from '../../lib/cli/verify-files.js'
import { findProgram } from '../support/programs.js'

const names = [
  'plain',
  'sub/with space',
  ' leading',
  'back\\slash',
  'line\nbreak',
  'both\\\n',
  '-',
  '--check',
  '*star',
  'ü'
]

t.test('sha256sum accepts the lines', { skip: findProgram('sha256sum') === null && 'no sha256sum' }, async t => {
  const directory = t.testdir()
  mkdirSync(join(directory, 'sub'))
  const lines = names.map(name => {
    writeFileSync(join(directory, name), name)
    return sumLine(createHash('sha256').update(name).digest('hex'), name)
  })
  const check = () => spawnSync('sha256sum', ['-c', '--strict'], { cwd: directory, input: lines.join('') })
  const { status, stdout, stderr } = check()
  t.equal(status, 0, `${stdout} ${stderr}`)
  t.equal(String(stdout).match(/: OK$/gm)?.length, names.length)
  writeFileSync(join(directory, 'line\nbreak'), 'edited')
  t.equal(check().status, 1)
})

t.test('escapes as coreutils do', async t => {
  t.equal(sumLine('ab', 'a b'), 'ab  a b\n')
  t.equal(sumLine('ab', 'a\\b\nc'), '\\ab  a\\\\b\\nc\n')
  t.equal(sumLine('ab', '-'), 'ab  ./-\n')
})
