import { chmodSync, mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { loosenessOf, looseParentOf, trustedUsers } from '../../lib/base/permissions.js'

const skip = process.getuid === undefined && 'Windows has other rights'

t.test('reports a file that another user owns or can write to', { skip }, async t => {
  const cases: Array<
    [what: string, stats: { uid: number; gid: number; mode: number }, privateGroup: boolean, why: RegExp | null]
  > = [
    ['its owner alone', { uid: 1000, gid: 1000, mode: 0o100600 }, false, null],
    ['others may read', { uid: 1000, gid: 50, mode: 0o100644 }, false, null],
    ['root’s', { uid: 0, gid: 0, mode: 0o100644 }, false, null],
    ['another user’s', { uid: 1001, gid: 1000, mode: 0o100600 }, false, /"\/a" belongs to the user 1001/],
    [
      'others may write',
      { uid: 1000, gid: 1000, mode: 0o100602 },
      false,
      /other users may write to "\/a" \(mode 0602\)/
    ],
    ['the group may write', { uid: 1000, gid: 1000, mode: 0o100660 }, false, /mode 0660/],
    ['a private group may write', { uid: 1000, gid: 1000, mode: 0o100660 }, true, null],
    ['a shared group may write', { uid: 1000, gid: 50, mode: 0o100660 }, true, /mode 0660/],
    ['others may write, private group or not', { uid: 1000, gid: 1000, mode: 0o100666 }, true, /mode 0666/]
  ]
  for (const [what, stats, privateGroup, why] of cases) {
    const loose = loosenessOf('/a', stats, { owners: [1000, 0], privateGroup })
    if (why === null) t.equal(loose, null, what)
    else t.match(loose, { path: '/a', why, cure: /^Run "ch(mod go-w|own 1000) \/a"$/ }, what)
  }
})

t.test('reports a parent directory that others can write to, unless it is sticky', { skip }, async t => {
  const top = realpathSync(t.testdir())
  const file = join(top, 'middle', 'file')
  mkdirSync(join(top, 'middle'))
  t.equal(await looseParentOf(file), null)
  chmodSync(top, 0o777)
  t.match(await looseParentOf(file), { path: top, cure: `Run "chmod go-w ${top}"` }, 'also not the nearest one')
  chmodSync(top, 0o1777)
  t.equal(await looseParentOf(file), null)
  chmodSync(top, 0o755)
})

t.test('trusts this user and root', { skip }, async t => {
  t.same(trustedUsers(), [...new Set([process.getuid?.(), 0])])
})
