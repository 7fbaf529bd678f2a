import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { findRunner, workingDirectory } from '../../../lib/deploy/scripts/script-place.js'
import { deploySays } from '../../support/sentences/deploy.js'
import { matching } from '../../support/sentences/matching.js'

t.test('the working directory must exist within the target', async t => {
  const target = join(t.testdir(), 'target')
  mkdirSync(join(target, 'apps/web'), { recursive: true })
  mkdirSync(join(dirname(target), 'outside'))
  writeFileSync(join(target, 'file'), '')
  symlinkSync('apps', join(target, 'inside'))
  symlinkSync('../outside', join(target, 'link'))
  const at = (directory: string | null, { isFirst = false, isBeforeFiles = false } = {}) =>
    workingDirectory({ target, directory, shell: null, isFirst }, { title: 'The script', isBeforeFiles })
  t.strictSame(await at(null), { path: target, isPlain: false })
  t.strictSame(await at('apps/web'), { path: join(target, 'apps/web'), isPlain: false })
  t.strictSame(await at('inside/web'), { path: join(target, 'apps/web'), isPlain: false }, 'a link that stays in it')
  await t.rejects(at('apps/none'), {
    message: deploySays.didNotRun('The script') + deploySays.workingDirectoryMissing('apps/none')
  })
  await t.rejects(at('file'), { message: deploySays.workingDirectoryIsFile('file') })
  await t.rejects(at('file/x'), { message: deploySays.workingDirectoryMissing('file/x') })
  await t.rejects(at('link'), { message: deploySays.workingDirectoryOutside('link') })
  await t.rejects(at('none', { isBeforeFiles: true }), {
    message: deploySays.workingDirectoryMissing('none')
  })
  await t.rejects(
    at('none', { isFirst: true }),
    { message: deploySays.workingDirectoryMissing('none') },
    'after the files are in place'
  )
  t.strictSame(await at('none', { isBeforeFiles: true, isFirst: true }), { path: target, isPlain: true })
  await t.rejects(at('link', { isBeforeFiles: true, isFirst: true }), {
    message: deploySays.workingDirectoryOutside('link')
  })
})

t.test('the shell must be an executable file or a name in PATH', async t => {
  const directory = t.testdir({ mine: '#!/bin/sh\n', plain: '' })
  chmodSync(join(directory, 'mine'), 0o755)
  chmodSync(join(directory, 'plain'), 0o644)
  const find = async (shell: string | null, path = `relative:${directory}:/bin:/usr/bin`) => {
    const { interpreter } = await findRunner('true', { shell }, { title: 'The script', path })
    return interpreter?.[0] ?? null
  }
  t.equal(await find(null), null)
  t.equal(await find('sh'), null)
  t.match(await find('bash'), /\/bash$/)
  t.equal(await find(join(directory, 'mine')), join(directory, 'mine'))
  await t.rejects(find('bash', directory), {
    message: matching(deploySays.didNotRun('The script'), deploySays.shellNotInPath('bash'))
  })
  await t.rejects(find('/no/such/shell'), {
    message: deploySays.shellNotExecutable('/no/such/shell')
  })
  await t.rejects(find(join(directory, 'plain')), {
    message: deploySays.shellNotExecutable(join(directory, 'plain'))
  })
  await t.rejects(find(directory), { message: deploySays.shellNotExecutable(directory) })
})

t.test('the first line of a script names its interpreter', async t => {
  const path = '/usr/local/bin:/usr/bin:/bin'
  const sh = null
  const bash = ['/bin/bash', '-c']
  const table: Array<[script: string, shell: string | null, interpreter: string[] | null | RegExp, notes: RegExp[]]> = [
    ['echo', null, sh, []],
    ['# no\n#!/bin/bash', null, sh, []],
    ['#!/bin/bash\necho', null, bash, []],
    ['#! /bin/bash -eu\r\necho\r\n', null, ['/bin/bash', '-eu', '-c'], [/line ends/]],
    ['\ufeff#!/bin/bash\necho', null, bash, [/byte order mark/]],
    ['#!/usr/bin/env bash\n', null, /bash -c$/, []],
    ['#!/usr/bin/env -S bash -e\n', null, /bash -e -c$/, []],
    ['#!/usr/bin/env -i bash\n', null, sh, [/"\/usr\/bin\/env".*as text/]],
    ['#!/usr/bin/env node\n', null, /node -e$/, []],
    ['#!/usr/bin/awk -f\n', null, sh, [/"\/usr\/bin\/awk".*runs with sh/]],
    ['#!/no/such/bash\n', null, sh, [/not on this server/]],
    ['#!/bin/bash\n', 'sh', sh, [/scriptShell is "sh"/]],
    ['#!/bin/sh\n', 'bash', /bash -c$/, [/scriptShell is "bash"/]],
    ['#!/usr/bin/env bash\n', 'bash', /bash -c$/, []],
    ['#!\necho', null, sh, []]
  ]
  for (const [script, shell, interpreter, notes] of table) {
    const found = await findRunner(
      script,
      { shell },
      { title: 'The script', path: `${path}:${dirname(process.execPath)}` }
    )
    if (interpreter instanceof RegExp) t.match(found.interpreter?.join(' '), interpreter, script)
    else t.strictSame(found.interpreter, interpreter, script)
    t.equal(found.notes.length, notes.length, script)
    t.match(found.notes, notes, script)
  }
})
