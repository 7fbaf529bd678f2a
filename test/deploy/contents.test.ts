import t from 'tap'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findScripted, pathOfSource } from '../../lib/deploy/contents.js'
import type { WantedFrom } from '../../lib/deploy/exact-state.js'
import { createFiles } from '../../lib/deploy/files.js'
import { writeScripted } from '../../lib/install/scripted-file.js'

const digest = (digit: string): string => digit.repeat(64)

t.test('contents that a script made are in its copies, and those that it left as they were in an archive', async t => {
  const deployments = mkdtempSync(join(tmpdir(), 'svc-contents-'))
  const files = createFiles({ directory: deployments, deployments, tmp: deployments })
  const line = { mode: 0o100644, size: 1, mtimeMs: 1 }
  await writeScripted(files.scripted('dep_2'), [
    { ...line, path: 'a', sha256: digest('a'), kept: 'scripted' },
    { ...line, path: 'b', sha256: digest('b'), kept: 'archive:dep_1' },
    { ...line, path: 'c', sha256: digest('c') },
    { ...line, path: 'd', sha256: digest('d'), kept: 'none' },
    { removed: 'e' }
  ])
  await writeScripted(files.scripted('dep_1'), [{ ...line, path: 'b', sha256: digest('b'), kept: 'scripted' }])
  const never = (): never => t.fail('nothing is lost') as never
  const find = async (path: string, sha256: string, onNone: Parameters<typeof findScripted>[2] = never) => {
    const entry: WantedFrom = { ...line, path, sha256, source: { kind: 'archive', deployId: 'dep_2' } }
    await findScripted(files, [entry], onNone)
    return pathOfSource(files, entry.source as NonNullable<WantedFrom['source']>)
  }
  t.equal(await find('a', digest('a')), files.scriptedImages('dep_2'))
  t.equal(await find('a', digest('f')), files.archive('dep_2'), 'what the archive has')
  t.equal(await find('b', digest('b')), files.scriptedImages('dep_1'))
  for (const path of ['c', 'e', 'f']) t.equal(await find(path, digest(path)), files.archive('dep_2'))
  const lost = find('d', digest('d'), ({ path }, deployId) => {
    throw new Error(`${deployId} ${path}`)
  })
  await t.rejects(lost, { message: 'dep_2 d' })
  t.equal(pathOfSource(files, { kind: 'before', deployId: 'dep_2' }), files.before('dep_2'))
})
