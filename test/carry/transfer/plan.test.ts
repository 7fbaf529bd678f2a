import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { LabelKind } from '../../../lib/model/project.js'
import { insertDeployment } from '../../../lib/core/store/tables/deployments.js'
import { insertLabel, insertProject } from '../../../lib/core/store/tables/projects.js'
import { divideSettings, planImport } from '../../../lib/carry/transfer/plan.js'
import { readRecords } from '../../../lib/carry/transfer/records.js'
import { openStage } from '../../support/store.js'

const now = '2026-01-31T12:00:00.000Z'
const noSettings = { taken: new Map<string, string>(), leftOut: [], unknown: [], refused: [] }

/** Returns the records of a package with these files. */
function recordsOf(files: Record<string, object>) {
  const lists = files as Record<string, unknown[]>
  const list = async (name: string, _: number, onItem: (item: unknown, index: number) => void): Promise<void> =>
    lists[name]?.forEach(onItem)
  return readRecords({ json: async name => files[name], list }, now)
}

const projectOf = (id: string, fields: object = {}) => ({
  id,
  name: id,
  deployPath: `/srv/svc-test/${id}`,
  token: `token-of-${id}-0123456789`,
  ...fields
})
const deploymentOf = (id: string, fields: object = {}) => ({
  id,
  projectId: 'proj_a',
  status: 'success',
  startTime: now,
  ...fields
})

async function stageOf(t: Test) {
  const stage = await openStage(t)
  /** Plans the package's import and writes it to the store. Additional fields go into the rows of deployments. */
  async function have(files: Record<string, object>, row: object = {}): Promise<void> {
    const records = await recordsOf(files)
    await stage.store.write(tx => {
      const labels: Array<[LabelKind, typeof records.tags]> = [
        ['category', records.categories],
        ['tag', records.tags]
      ]
      for (const [kind, all] of labels) for (const label of all) insertLabel(tx, kind, label)
      for (const project of records.projects) insertProject(tx, project)
      for (const deployment of records.deployments) insertDeployment(tx, { ...deployment.row, ...row })
    })
  }
  async function plan(
    files: Record<string, object>,
    strategy: 'skip-existing' | 'overwrite' = 'overwrite',
    { isRunning = false } = {}
  ) {
    const home = join(stage.directory, 'home')
    return planImport(stage.store, {
      records: await recordsOf(files),
      settings: noSettings,
      strategy,
      withAccess: false,
      home,
      allowSystemPaths: false,
      rightsFaults: new Map(),
      hasRunning: () => isRunning
    })
  }
  return { have, plan }
}

t.test('creates new records, and skips existing ones or replaces them under overwrite', async t => {
  const { have, plan } = await stageOf(t)
  const known = {
    'categories.json': [{ id: 'cat_a', name: 'A' }],
    'projects.json': [projectOf('proj_a')],
    'deployments.json': [deploymentOf('dep_a')]
  }
  const actions = ({ categories, projects, deployments }: Awaited<ReturnType<typeof plan>>) =>
    [categories, projects, deployments].map(all => all.map(({ action }) => action).join())
  t.strictSame(actions(await plan(known)), ['create', 'create', 'create'])
  await have(known)
  t.strictSame(actions(await plan(known)), ['replace', 'replace', 'replace'])
  t.strictSame(actions(await plan(known, 'skip-existing')), ['skip', 'skip', 'skip'])
})

t.test('identifies a label with the existing one of the same name', async t => {
  const { have, plan } = await stageOf(t)
  await have({ 'tags.json': [{ id: 'tag_here', name: 'web' }] })
  const files = {
    'tags.json': [{ id: 'tag_there', name: 'web' }],
    'projects.json': [projectOf('proj_a', { tagIds: ['tag_there'] })]
  }
  for (const [strategy, action] of [
    ['skip-existing', 'skip'],
    ['overwrite', 'replace']
  ] as const) {
    const { tags, projects, notes } = await plan(files, strategy)
    t.match(tags, [{ id: 'tag_here', action }])
    t.strictSame(projects[0]?.record.tagIds, ['tag_here'])
    t.strictSame(notes, [])
  }
})

t.test('refuses to rename a label to an existing name, under overwrite only', async t => {
  const { have, plan } = await stageOf(t)
  await have({
    'tags.json': [
      { id: 'tag_a', name: 'a' },
      { id: 'tag_b', name: 'b' }
    ]
  })
  const swapped = { 'tags.json': [{ id: 'tag_a', name: 'b' }] }
  await t.rejects(plan(swapped), {
    kind: 'conflict',
    code: 'name_taken',
    message: /"b" \(tag_a\).*"tag_b" already has that name/
  })
  t.match((await plan(swapped, 'skip-existing')).tags, [{ id: 'tag_a', action: 'skip' }])
  t.match((await plan({ 'tags.json': [{ id: 'tag_a', name: 'a' }] })).tags, [{ id: 'tag_a', action: 'replace' }])
  t.match((await plan({ 'tags.json': [{ id: 'tag_a', name: 'new' }] })).tags, [{ id: 'tag_a', action: 'replace' }])
})

t.test('removes unknown labels from a project with a note for each', async t => {
  const { have, plan } = await stageOf(t)
  await have({ 'categories.json': [{ id: 'cat_here', name: 'here' }] })
  const { projects, notes } = await plan({
    'tags.json': [{ id: 'tag_a', name: 'a' }],
    'projects.json': [
      projectOf('proj_a', { categoryId: 'cat_here', tagIds: ['tag_a', 'tag_gone'] }),
      projectOf('proj_b', { categoryId: 'cat_gone' }),
      projectOf('proj_c')
    ]
  })
  t.match(
    projects.map(({ record: { categoryId, tagIds } }) => ({ categoryId, tagIds })),
    [
      { categoryId: 'cat_here', tagIds: ['tag_a'] },
      { categoryId: null, tagIds: [] },
      { categoryId: null, tagIds: [] }
    ]
  )
  t.match(notes, [/"proj_a".* loses the tag "tag_gone"/, /"proj_b".* loses the category "cat_gone"/])
  t.equal(notes.length, 2)
})

t.test('refuses a target or token of another project, here or in the package', async t => {
  const { have, plan } = await stageOf(t)
  await have({ 'projects.json': [projectOf('proj_a')] })
  const { deployPath, token } = projectOf('proj_a')
  const cases: Array<[object[], RegExp]> = [
    [[projectOf('proj_b', { deployPath: `${deployPath}/below` })], /"proj_b" .* would deploy to .* but "proj_a"/],
    [[projectOf('proj_b', { token })], /"proj_b" .* and "proj_a" have the same deploy token/],
    [
      [projectOf('proj_b'), projectOf('proj_c', { deployPath: '/srv/svc-test/proj_b' })],
      /"proj_c" .* would deploy to .* but "proj_b"/
    ],
    [
      [projectOf('proj_b'), projectOf('proj_c', { token: projectOf('proj_b').token })],
      /"proj_c" .* and "proj_b" have the same deploy token/
    ]
  ]
  for (const [projects, message] of cases) {
    await t.rejects(plan({ 'projects.json': projects }), { kind: 'conflict', code: 'clashing_projects', message })
  }
  await t.rejects(plan({ 'projects.json': [projectOf('proj_b', { deployPath: '/etc' })] }), {
    code: 'invalid_field',
    field: 'projects.json[0].deployPath'
  })
  await plan({ 'projects.json': [projectOf('proj_b', { token: '' }), projectOf('proj_c', { token: '' })] })
  await plan({
    'projects.json': [projectOf('proj_a', { deployPath: '/srv/svc-test/other' }), projectOf('proj_b', { deployPath })]
  })
  await plan({ 'projects.json': [projectOf('proj_a', { deployPath: '/etc' })] }, 'skip-existing')
})

t.test('a project whose name another has gets a number, with a note', async t => {
  const { have, plan } = await stageOf(t)
  await have({ 'projects.json': [projectOf('proj_a', { name: 'shop' }), projectOf('proj_b', { name: 'Shop (2)' })] })
  const long = 'x'.repeat(200)
  const package_ = {
    'projects.json': [
      projectOf('proj_a', { name: 'Shop' }),
      projectOf('proj_c', { name: 'SHOP' }),
      projectOf('proj_d', { name: long }),
      projectOf('proj_e', { name: long })
    ]
  }
  const { projects, notes } = await plan(package_)
  t.same(
    projects.map(({ record }) => record.name),
    ['Shop', 'SHOP (3)', long, `${'x'.repeat(196)} (2)`]
  )
  t.match(notes, [/^"SHOP" \(proj_c\) is imported as "SHOP \(3\)": another project has its name$/, /^"x+" \(proj_e\)/])
  t.equal(notes.length, 2)
  t.match((await plan(package_, 'skip-existing')).projects[1], { record: { name: 'SHOP (3)' } })
})

t.test('refuses to change the target of a project with an unfinished deployment', async t => {
  const { have, plan } = await stageOf(t)
  await have({ 'projects.json': [projectOf('proj_a')] })
  const moved = { 'projects.json': [projectOf('proj_a', { deployPath: '/srv/svc-test/other' })] }
  await t.rejects(plan(moved, 'overwrite', { isRunning: true }), {
    code: 'clashing_projects',
    message: /"proj_a" .* queued or running/
  })
  await plan(moved)
  await plan({ 'projects.json': [projectOf('proj_a', { name: 'renamed' })] }, 'overwrite', { isRunning: true })
})

t.test('replaces a deployment unless it is unfinished or belongs to another project', async t => {
  for (const status of ['queued', 'running']) {
    await t.test(status, async t => {
      const { have, plan } = await stageOf(t)
      const files = { 'projects.json': [projectOf('proj_a')], 'deployments.json': [deploymentOf('dep_a')] }
      await have(files, { status })
      await t.rejects(plan(files), { code: 'deployment_in_use', message: new RegExp(`it is ${status}$`) })
      t.match((await plan(files, 'skip-existing')).deployments, [{ action: 'skip' }])
    })
  }
  const { have, plan } = await stageOf(t)
  await have({
    'projects.json': [projectOf('proj_a'), projectOf('proj_b')],
    'deployments.json': [deploymentOf('dep_a')]
  })
  await t.rejects(plan({ 'deployments.json': [deploymentOf('dep_a', { projectId: 'proj_b' })] }), {
    message: /it belongs to the project "proj_a"/
  })
  await t.rejects(
    plan({ 'deployments.json': [deploymentOf('dep_b'), deploymentOf('dep_c', { projectId: 'proj_x' })] }),
    { code: 'invalid_field', field: 'deployments.json[1].projectId' }
  )
})

t.test('ignores log sources with a note if they are not supported', async t => {
  const { have, plan } = await stageOf(t)
  await have({ 'projects.json': [projectOf('proj_a')] })
  const { logSources, notes } = await plan({
    'log-sources.json': [{ id: 'log_a', projectId: 'proj_a', filePath: '/var/log/a' }]
  })
  t.strictSame(logSources, [])
  t.match(notes, [/Log sources were ignored/])
  t.strictSame((await plan({})).notes, [])
})

t.test('leaves out settings that control access unless they are requested', async t => {
  const known = new Set(['keep_archives', 'trusted_proxies'])
  const given = { keep_archives: '1', trusted_proxies: '::/0', tomorrow: 'x' }
  t.strictSame(divideSettings(given, { known, withAccess: false }), {
    wanted: { keep_archives: '1' },
    leftOut: ['trusted_proxies'],
    unknown: ['tomorrow']
  })
  t.strictSame(divideSettings(given, { known, withAccess: true }), {
    wanted: { keep_archives: '1', trusted_proxies: '::/0' },
    leftOut: [],
    unknown: ['tomorrow']
  })
})
