import t from 'tap'
import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { disk } from '../../lib/install/disk.js'
import { holdFolders } from '../../lib/install/folders.js'
import { holdTarget } from '../../lib/install/reach.js'
import { beforeLimits, findUnowned, takesUnowned, type UnownedNeeds } from '../../lib/install/unowned.js'

const absent = { kind: 'absent', protect: [], isForced: true } as const

function find(target: string, needs: Partial<UnownedNeeds> = {}) {
  const root = holdTarget(disk, target)
  const folders = holdFolders(disk, root)
  try {
    return findUnowned({ disk, folders, protect: [], known: new Set(), reserved: [], check() {}, ...needs })
  } finally {
    folders.close()
    root.close()
  }
}

t.test('finds what is neither known, reserved, of svc itself, nor behind a link', t => {
  const target = t.testdir({
    known: '1',
    'page.html': '1',
    '.svc-staging-dep_1': { files: { x: '1' } },
    d: { known: '1', other: '22', kept: { x: '1' } },
    all: { known: '1' },
    empty: {}
  })
  const outside = mkdtempSync(join(t.testdirName, '..', 'outside-'))
  writeFileSync(join(outside, 'x'), '')
  symlinkSync(outside, join(target, 'link'))
  mkdirSync(join(target, 'd/e'))
  writeFileSync(join(target, 'd/e/.svc-note'), '')
  writeFileSync(join(target, 'setuid'), '')
  chmodSync(join(target, 'setuid'), 0o4755)
  const known = new Set(['known', 'd/known', 'all/known'])
  const found = find(target, { known, reserved: ['page.html'], protect: ['d/kept'] })
  t.strictSame(
    found.files.map(({ path }) => path),
    ['d/e/.svc-note', 'd/other', 'link']
  )
  t.match(found.files, [{ size: 0 }, { size: 2 }])
  t.strictSame(found.protected, [{ path: 'd/kept/x', size: 1, glob: 'd/kept' }])
  t.strictSame(found.directories, ['d/e'], 'a glob may protect something in the other one')
  t.ok(find(target).directories.includes('d'))
  t.end()
})

t.test('a clean keeps all of what it removes', t => {
  const before = { maxBytes: 1, isRequired: false }
  t.strictSame(beforeLimits(absent, before), before)
  t.strictSame(beforeLimits({ ...absent, takesUnowned: true }, before), { maxBytes: 1, isRequired: true })
  t.notOk(takesUnowned(null))
  t.end()
})
