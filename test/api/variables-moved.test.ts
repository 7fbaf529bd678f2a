/* Variables in export packages and in backups: which values are contained, and which have to be set again. */
import { mkdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import { eventsOf, formOf } from '../support/client.js'
import { exampleFields, exampleValues } from '../support/project-examples.js'
import { startServer, type Stage } from '../support/server.js'
import { svc } from '../support/svc.js'
import { zipOf } from '../support/zip.js'

const secret = 'correct-horse-battery'
const script = 'echo "[$PORT] [$PASSWORD]"; [ "$PASSWORD" = correct-horse-battery ]'

/** Where and how scripts run. */
const scriptSettings = exampleValues(exampleFields.filter(field => /^(script|umask)/.test(field)))

async function push(stage: Stage, project: Project): Promise<{ status: string; text: string }> {
  const reply = await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'apps/web/a': 'b' }) }]
  ])
  const events = eventsOf(reply) as Array<{ data?: string; status?: string }>
  return { status: events.at(-1)?.status ?? '', text: events.flatMap(({ data }) => data ?? []).join('\n') }
}

async function stageWithVariables(t: Parameters<typeof startServer>[0]) {
  const stage = await startServer(t)
  const project = await stage.createProject('shop', {
    ...scriptSettings,
    postDeployScript: script
  })
  const variables = [
    { name: 'PORT', value: '8080' },
    { name: 'PASSWORD', value: secret, secret: true }
  ]
  await stage.client.put(`/api/projects/${project.id}/variables`, { variables })
  return { stage, project }
}

async function exported({ client }: Stage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of await client.open('GET', '/api/migration/export?artifacts=false'))
    chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

function imported({ client }: Stage, bytes: Uint8Array, query = '', headers: Record<string, string> = {}) {
  const { contentType, body } = formOf([['file', { filename: 'package.zip', bytes }]])
  return client.send('POST', `/api/migration/import${query}`, {
    headers: { 'content-type': contentType, ...headers },
    body
  })
}

t.test(
  'a package has no values of secrets: a deployment fails until they are set, and an import keeps existing ones',
  async t => {
    const { stage, project } = await stageWithVariables(t)
    const bytes = await exported(stage)
    t.notOk(bytes.includes(secret))
    let there: Stage | undefined
    await t.test('after an import on another server', async t => {
      there = await startServer(t)
      const path = `/api/projects/${project.id}/variables`
      const result = await imported(there, bytes)
      t.equal(result.status, 200, result.text)
      const [brought] = result.body.brings.projects
      const others = new Map(brought.others.map(({ key, value }: { key: string; value: string }) => [key, value]))
      for (const [field, value] of Object.entries(scriptSettings))
        t.equal(field in brought ? brought[field] : others.get(field), String(value), field)
      t.match(brought.variables, [
        { name: 'PASSWORD', value: null },
        { name: 'PORT', value: '8080' }
      ])
      t.match(
        result.body.notes.join('\n'),
        /"shop" \(proj_\w+\) needs the secrets PASSWORD: a package never contains the value of a secret/
      )
      t.match((await there.client.get(path)).body.variables, [
        { name: 'PASSWORD', value: null, secret: true, hasValue: false },
        { name: 'PORT', value: '8080' }
      ])
      const { body: moved } = await there.client.get(`/api/projects/${project.id}`)
      t.match(moved, scriptSettings)

      const first = await push(there, moved)
      t.match(first, {
        status: 'failed',
        text: /Cannot read the secret "PASSWORD": it has no value yet, because import packages contain no secret values\. Set it/
      })
      t.notMatch(first.text, '[]', 'never an empty value')
      t.match((await there.client.get('/api/health/detail')).body.secrets, { ok: true }, 'the key is not the cause')
      t.equal((await there.client.patch(path, { variables: [{ name: 'PASSWORD', value: secret }] })).status, 200)
      t.match(await push(there, moved), { status: 'success', text: /\[8080\] \[\*\*\*\]/ })

      await there.client.patch(path, {
        variables: [
          { name: 'PORT', value: '1' },
          { name: 'OWN', value: 'stays' }
        ]
      })
      const again = await imported(there, bytes, '?strategy=overwrite', { 'x-confirm-overwrite': 'yes' })
      t.notMatch(again.body.notes.join('\n'), 'needs the secrets')
      t.match((await there.client.get(path)).body.variables, [
        { name: 'OWN', value: 'stays' },
        { name: 'PASSWORD', hasValue: true },
        { name: 'PORT', value: '8080' }
      ])
      t.match(await push(there, moved), { status: 'success' })
      await there.client.patch(path, { variables: [{ name: 'PORT', value: '1' }] })
      await imported(there, bytes)
      t.match((await there.client.get(path)).body.variables[2], { value: '1' }, 'skipped with its project')
    })

    t.test('refuses an invalid package and names the position', async t => {
      const manifest = JSON.stringify({ schemaVersion: 1 })
      const cases: Array<[variables: object, field: RegExp]> = [
        [[{ projectId: project.id, name: 'PATH', value: 'x', secret: false }], /variables\.json\[0\]\.name/],
        [[{ projectId: project.id, name: 'A', value: 'x\u0001', secret: false }], /variables\.json\[0\]\.value/],
        [[{ projectId: project.id, name: 'A', secret: false }], /variables\.json\[0\]\.value/],
        [[{ projectId: 'proj_none', name: 'A', value: 'x' }], /variables\.json\[0\]\.projectId/],
        [
          [
            { projectId: project.id, name: 'A', value: 'x' },
            { projectId: project.id, name: 'A', value: 'y' }
          ],
          /variables\.json\[1\]\.name/
        ]
      ]
      for (const [variables, field] of cases) {
        const zip = await zipOf({
          'svc-export/manifest.json': manifest,
          'svc-export/variables.json': JSON.stringify(variables)
        })
        t.match(await imported(stage, zip), { status: 400, body: { field } }, String(field))
      }
    })
  }
)

t.test('a backup contains the key, so that deployments work after a restore', async t => {
  const { stage, project } = await stageWithVariables(t)
  t.match(await push(stage, project), { status: 'success' })
  const cwd = join(stage.sites, 'cwd')
  mkdirSync(cwd)
  const options = { cwd, env: { SVC_HOME: stage.home.directory } }
  const key = readFileSync(stage.home.variablesKey, 'utf8')
  await stage.server.stop({ wait: true })
  t.match(await svc(['backup', 'all.zip'], options), { code: 0 })
  rmSync(stage.home.directory, { recursive: true })
  t.match(await svc(['restore', 'all.zip'], options), { code: 0 })
  t.equal(readFileSync(stage.home.variablesKey, 'utf8'), key)
  if (process.platform !== 'win32') t.equal(statSync(stage.home.variablesKey).mode & 0o777, 0o600)
  await stage.restart()
  t.match(await push(stage, project), { status: 'success', text: /\[8080\] \[\*\*\*\]/ })
})
