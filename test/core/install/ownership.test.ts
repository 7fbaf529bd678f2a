/*
 * Every policy against every kind of edit, once as a plan and once as a deployment: a plan says that the deployment is
 * refused exactly when it is, and counts the edits that it loses.
 */

import t from 'tap'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Refusal } from '../../../lib/base/errors.js'
import { disk } from '../../../lib/core/install/disk.js'
import {
  beforeLimits,
  findUnowned,
  type Ownership,
  takesUnowned,
  type UnownedNeeds
} from '../../../lib/core/install/ownership.js'
import { filesAt, runExtraction } from '../../../lib/core/install/unpack/extraction.js'
import { pathsOf } from '../../support/extraction.js'
import { planOf, zipDirectory } from '../../support/planned.js'
import { ownedTree } from '../../support/pruning.js'
import { holdFolders, holdTarget } from '../../../lib/core/install/held.js'

const deployed = 'as svc put it there'
const edits: Record<string, (path: string) => void> = {
  nothing: () => {},
  'other contents': path => writeFileSync(path, 'edited on the server'),
  'the new contents': path => writeFileSync(path, 'new'),
  'another mode': path => chmodSync(path, 0o600),
  'another time': path => utimesSync(path, 1, 1),
  'a link in its place': path => {
    rmSync(path)
    symlinkSync('elsewhere', path)
  },
  'its removal': path => rmSync(path)
}
const policies: Array<Pick<Ownership, 'edited' | 'removes' | 'before'>> = []
for (const edited of ['ignore', 'warn', 'refuse', 'keep'] as const)
  for (const prune of [false, true])
    for (const isRequired of [false, true])
      policies.push({
        edited,
        removes: prune ? { kind: 'absent', protect: [], isForced: true } : null,
        before: { maxBytes: isRequired ? 1 : 1e9, isRequired }
      })

t.test('a plan and a deployment decide alike', async t => {
  const top = t.testdir({})
  const owned = await ownedTree({ changed: deployed, absent: deployed })
  for (const [at, policy] of policies.entries())
    for (const [what, edit] of Object.entries(edits))
      for (const path of ['changed', 'absent', 'foreign']) {
        const name = `${JSON.stringify(policy)}: ${what} of a file that is ${path}`
        const directory = join(top, `${at}-${what.replaceAll(' ', '')}-${path}`)
        const [site, target] = [join(directory, 'site'), join(directory, 'target')]
        for (const each of [site, target, join(directory, 'deployments')]) mkdirSync(each, { recursive: true })
        writeFileSync(join(site, 'changed'), 'new')
        for (const file of ['changed', 'absent']) writeFileSync(join(target, file), deployed)
        // Nobody knows who put it there, whatever it contains.
        const isForeign = path === 'foreign'
        if (isForeign) for (const each of [site, target]) writeFileSync(join(each, path), each === site ? 'new' : 'own')
        edit(join(target, path))
        const { archivePath } = pathsOf(directory, 'dep_test')
        await zipDirectory(site, archivePath)
        const keeps = { archives: [], before: policy.before }
        const plan = await planOf(site, target, {
          job: { owned, edited: policy.edited, removes: policy.removes, keeps }
        })
        const job = {
          target,
          deployId: 'dep_test',
          umask: process.umask(),
          masksModes: false,
          limits: { maxEntries: 1000, maxExtractedBytes: 1e9 },
          ownership: { tree: owned, exact: null, archives: [], ...policy },
          isDurable: false
        }
        const pushed = await runExtraction(job, filesAt(disk, pathsOf(directory, 'dep_test')), { disk }).catch(
          (error: unknown) => error
        )
        const failed = plan.checks.filter(({ ok }) => !ok).map(({ code }) => code)
        if (pushed instanceof Error) {
          if (!(pushed instanceof Refusal) || !failed.includes(pushed.code))
            t.fail(`${name}: ${String(pushed)}, the plan said ${failed.join() || 'nothing'}`)
          continue
        }
        if (failed.length > 0) t.fail(`${name}: the plan said ${failed.join()}, and the push succeeded`)
        const { replaced } = pushed as { replaced: { count: number } | null }
        const lost = plan.paths.drifted.filter(
          ({ path, found, overwritten }) => found !== null && (overwritten || plan.paths.pruned.includes(path))
        )
        const isReplaced = isForeign && policy.edited !== 'keep' && !['the new contents', 'its removal'].includes(what)
        const losses = lost.length + Number(isReplaced)
        if (replaced?.count !== losses)
          t.fail(`${name}: the plan says ${losses} edits are lost, the push ${replaced?.count}`)
      }
  t.pass(`${policies.length * Object.keys(edits).length * 3} cases`)
})

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
