import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { findShell, workingDirectory } from '../../lib/deploy/script-place.js'

t.test('the working directory is within the target, and there', async t => {
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
  await t.rejects(at('apps/none'), { message: 'The script did not run: its working directory "apps/none" is not in the target' })
  await t.rejects(at('file'), { message: /"file" is not a directory/ })
  await t.rejects(at('file/x'), { message: /"file\/x" is not in the target/ })
  await t.rejects(at('link'), { message: /"link" leads out of the target/ })
  await t.rejects(at('none', { isBeforeFiles: true }), { message: /is not in the target/ })
  await t.rejects(at('none', { isFirst: true }), { message: /is not in the target/ }, 'after the files have arrived')
  t.strictSame(await at('none', { isBeforeFiles: true, isFirst: true }), { path: target, isPlain: true })
  await t.rejects(at('link', { isBeforeFiles: true, isFirst: true }), { message: /leads out/ })
})

t.test('a shell is an executable file, or a name in PATH', async t => {
  const directory = t.testdir({ mine: '#!/bin/sh\n', plain: '' })
  chmodSync(join(directory, 'mine'), 0o755)
  chmodSync(join(directory, 'plain'), 0o644)
  const find = (shell: string | null, path = `relative:${directory}:/bin:/usr/bin`) => findShell({ shell }, { title: 'The script', path })
  t.equal(await find(null), null)
  t.equal(await find('sh'), null)
  t.match(await find('bash'), /\/bash$/)
  t.equal(await find(join(directory, 'mine')), join(directory, 'mine'))
  await t.rejects(find('bash', directory), { message: /The script did not run: the shell "bash" is not in the PATH of this server/ })
  await t.rejects(find('/no/such/shell'), { message: /"\/no\/such\/shell" is not an executable file on this server\. Install it/ })
  await t.rejects(find(join(directory, 'plain')), { message: /not an executable/ })
  await t.rejects(find(directory), { message: /not an executable/ })
})
