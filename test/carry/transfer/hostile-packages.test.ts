import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { importPackage } from '../../../lib/carry/transfer/import.js'
import { listDeployments } from '../../../lib/core/store/tables/deployments.js'
import { listProjects } from '../../../lib/core/store/tables/projects.js'
import { digestOf } from '../../support/database-digest.js'
import { hostileZip } from '../../support/hostile-zips.js'
import { openImport, overwrite, request } from '../../support/import-stage.js'
import { makeZip, type EntryPlan } from '../../support/make-zip.js'
import { createRandom } from '../../support/random.js'
import { firstSeed, repetitions } from '../../support/thorough.js'
import { snapshot } from '../../support/tree.js'
import { zipOf } from '../../support/zip.js'

const at = '2026-01-31T12:00:00.000Z'
const project = (letter: string) => ({
  id: `proj_${letter}`,
  name: letter,
  description: 'a shop',
  deployPath: `/srv/svc-test/${letter}`,
  token: `token-of-${letter}-0123456789`,
  preDeployScript: 'true',
  postDeployScript: 'true',
  postDeployAsync: false,
  allowClientScripts: null,
  allowedEnv: ['NODE_*'],
  env: 'production',
  categoryId: 'cat_a',
  tagIds: ['tag_a'],
  pm2AppName: null,
  policy: { prune: 'managed', protect: ['uploads/**'], gate: { after: [{ command: 'true' }] } },
  createdAt: at,
  updatedAt: at
})
const label = (id: string) => ({ id, name: id, color: 'blue', sortOrder: 0, createdAt: at, updatedAt: at })
const deployment = (id: string) => ({ id, projectId: 'proj_a', status: 'success', startTime: at, endTime: at })

async function wholePackage(): Promise<EntryPlan[]> {
  const json: Record<string, unknown> = {
    manifest: { schemaVersion: 1, projectIds: ['proj_a'], artifacts: [{ projectId: 'proj_a', deployId: 'dep_a' }] },
    settings: { max_upload_size: '100', keep_archives: '7' },
    categories: [label('cat_a')],
    tags: [label('tag_a')],
    projects: [project('a'), project('b')],
    variables: [{ projectId: 'proj_a', name: 'A', value: 'b', secret: false, updatedAt: at }],
    deployments: [deployment('dep_a'), deployment('dep_b')]
  }
  return [
    ...Object.entries(json).map(([name, value]) => ({ name: `${name}.json`, data: JSON.stringify(value), method: 8 })),
    { name: 'outputs/dep_a.log', data: `${at} one\n` },
    { name: 'artifacts/proj_a.zip', data: await zipOf({ 'a.txt': 'a' }) }
  ].map(entry => ({ ...entry, name: `svc-export/${entry.name}` }))
}

t.test('a package is taken as it is, or refused without a trace', async t => {
  const whole = await wholePackage()
  const counts = { refused: 0, taken: 0 }
  const errors: string[] = []
  const perStage = 60
  const inStage = async (first: number, stage: Awaited<ReturnType<typeof openImport>>) => {
    const { store, needs, home, directory } = stage
    const path = join(directory, 'package.zip')
    mkdirSync(home.tmp)
    for (let n = first; n < first + perStage; n++) {
      const random = createRandom(firstSeed + n)
      const { kind, bytes } = n % perStage === 0 ? hostileNot(whole) : hostileZip(whole, random)
      writeFileSync(path, bytes)
      const before = { database: digestOf(store), files: snapshot(directory) }
      const asked = random.oneOf([
        request,
        overwrite,
        { ...overwrite, dryRun: true },
        { ...overwrite, accessSettings: true }
      ])
      const told = `seed ${firstSeed + n} (${kind})`
      try {
        const result = await importPackage(needs, path, asked)
        counts.taken++
        const ids = new Set(listProjects(store).map(({ id }) => id))
        const wanted = [...result.projects.created, ...result.projects.replaced]
        if (!asked.dryRun && !wanted.every(id => ids.has(id))) errors.push(`${told}: a project is missing`)
        if (asked.dryRun && digestOf(store) !== before.database) errors.push(`${told}: a rehearsal wrote something`)
      } catch (error) {
        counts.refused++
        if (kind === 'unchanged') errors.push(`${told}: ${String(error)}`)
        if (!(error instanceof Refusal)) errors.push(`${told}: ${(error as Error).stack}`)
        if (digestOf(store) !== before.database) errors.push(`${told}: a refused package changed records`)
        if (snapshot(directory).join('\n') !== before.files.join('\n')) errors.push(`${told}: it left files`)
      }
      const known = new Set(listDeployments(store, { limit: 500 }).map(({ id }) => id))
      const strange = readdirSync(home.deployments).filter(name => !known.has(name.replace(/\.\w+$/, '')))
      if (strange.length > 0) errors.push(`${told}: files without a record: ${strange.join()}`)
      const others = readdirSync(directory).filter(
        name => !/^(svc\.db.*|deployments|tmp|package\.zip|variables\.key)$/.test(name)
      )
      if (others.length > 0) errors.push(`${told}: files beside: ${others.join()}`)
      if (readdirSync(home.tmp).length > 0) errors.push(`${told}: temporary files`)
    }
  }
  for (let n = 0; n < repetitions(240, 6000); n += perStage)
    await t.test(`from seed ${firstSeed + n}`, async t => inStage(n, await openImport(t)))
  t.strictSame(errors, [])
  t.equal(({} as { polluted?: unknown }).polluted, undefined)
  t.ok(counts.refused > 20 && counts.taken > 10, JSON.stringify(counts))
})

/** The package without a change. It must be taken, so that the changes are what is refused. */
function hostileNot(entries: EntryPlan[]) {
  return { kind: 'unchanged', bytes: makeZip(entries) }
}
