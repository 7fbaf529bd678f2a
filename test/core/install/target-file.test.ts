import t from 'tap'
import { existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { sha256 } from '../../../lib/base/digests.js'
import { disk } from '../../../lib/core/install/disk.js'
import { workOnFile } from '../../../lib/core/install/target-file.js'

const digest = (text: string): string => sha256(Buffer.from(text)).toString('hex')

t.test('a file is described, read within a limit, and removed only with the expected contents', async t => {
  const target = t.testdir({ 'a.txt': 'abc', sub: { 'b.txt': 'b' } })
  const file = { is: 'file', sha256: digest('abc'), size: 3, contents: null, isRemoved: false }
  t.same(workOnFile({ target, path: 'a.txt' }, { disk }), file)
  t.match(workOnFile({ target, path: 'a.txt', readBytes: 2 }, { disk }), { contents: null })
  const read = workOnFile({ target, real: target, path: 'a.txt', readBytes: 3 }, { disk })
  t.equal(read.is === 'file' && Buffer.from(read.contents as Uint8Array).toString(), 'abc')
  t.same(workOnFile({ target, path: 'a.txt', remove: { sha256: digest('abd') } }, { disk }), file)
  t.ok(existsSync(join(target, 'a.txt')))
  t.match(workOnFile({ target, path: 'a.txt', remove: { sha256: digest('abc') } }, { disk }), { isRemoved: true })
  t.same(workOnFile({ target, path: 'a.txt' }, { disk }), { is: 'absent' })
  t.match(workOnFile({ target, path: 'sub/b.txt', remove: { sha256: null } }, { disk }), { isRemoved: true })
})

t.test('what is missing, a directory, or a link is not a file', async t => {
  const top = t.testdir({ target: { sub: {}, 'a.txt': 'a' }, outside: { 'c.txt': 'c' } })
  const target = join(top, 'target')
  symlinkSync(join(top, 'outside/c.txt'), join(target, 'link'))
  symlinkSync(join(top, 'outside'), join(target, 'linked'))
  const at = (path: string) => workOnFile({ target, path, readBytes: 10, remove: { sha256: null } }, { disk })
  for (const path of ['none', 'none/deeper', 'none/deeper/still', 'a.txt/b']) t.same(at(path), { is: 'absent' }, path)
  for (const path of ['sub', 'link']) t.same(at(path), { is: 'other' }, path)
  t.throws(() => at('linked/c.txt'), { code: 'written_through_link' })
  t.equal(readFileSync(join(top, 'outside/c.txt'), 'utf8'), 'c')
})

t.test('a target that is missing, or leads elsewhere, is unreachable', async t => {
  const top = t.testdir({ one: { a: '1' } })
  const unreachable = { is: 'unreachable' }
  t.same(workOnFile({ target: join(top, 'none'), path: 'a' }, { disk }), unreachable)
  t.same(workOnFile({ target: join(top, 'one'), real: join(top, 'two'), path: 'a' }, { disk }), unreachable)
  mkdirSync(join(top, 'two'))
  writeFileSync(join(top, 'two/a'), '2')
  t.match(workOnFile({ target: join(top, 'two'), path: 'a' }, { disk }), { is: 'file' })
})

t.test('is abandoned while it reads a file, however large that is', async t => {
  const target = t.testdir({ a: '' })
  truncateSync(join(target, 'a'), 900 * 2 ** 30)
  let checks = 0
  const check = (): void => {
    if (++checks === 3) throw new Error('abandoned')
  }
  t.throws(() => workOnFile({ target, path: 'a' }, { disk, check }), /abandoned/)
})
