import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { findShell, workingDirectory } from '../../../lib/deploy/scripts/script-place.js'
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
  const find = (shell: string | null, path = `relative:${directory}:/bin:/usr/bin`) =>
    findShell({ shell }, { title: 'The script', path })
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
