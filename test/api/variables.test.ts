/*
 * Variables of projects, on a real server with real scripts: the API, the scripts that get the values, and places where
 * secrets must not appear.
 */
import { chmodSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Project } from '../../lib/model/project.js'
import type { Variable } from '../../lib/model/variable.js'
import { loadSqlite } from '../../lib/store/sqlite.js'
import { eventsOf, formOf } from '../support/client.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { until } from '../support/until.js'

const secret = 'correct-horse-battery'
const pathOf = (project: Pick<Project, 'id'>): string => `/api/projects/${project.id}/variables`

async function push(stage: Stage, project: Project, fields: Record<string, string> = {}) {
  const { contentType, body } = formOf([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'index.html': 'x', 'apps/web/x': 'y' }) }],
    ...Object.entries(fields)
  ])
  const reply = await stage
    .as(project.token)
    .send('POST', '/api/deploy/upload', { headers: { 'content-type': contentType }, body })
  const events = eventsOf(reply) as Array<{ event: string; data?: string; status?: string; deployId?: string }>
  const deployId = events.find(event => event.deployId !== undefined)?.deployId as string
  return { status: events.at(-1)?.status, deployId, lines: events.flatMap(({ data }) => data ?? []) }
}

async function set(stage: Stage, project: Project, variables: object[]) {
  return stage.client.patch(pathOf(project), { variables })
}

const namesOf = (variables: Variable[]): string[] => variables.map(({ name }) => name)

/** Returns every file below a directory with its content. */
function filesOf(directory: string): Array<[string, string]> {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .map(name => join(directory, name))
    .filter(path => statSync(path).isFile())
    .map(path => [path, readFileSync(path, 'latin1')])
}

t.test('requests and responses', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site')
  const { client } = stage

  t.test('PUT, PATCH and GET change and return variables', async t => {
    t.strictSame((await client.get(pathOf(project))).body, { success: true, variables: [] })
    const put = await client.put(pathOf(project), {
      variables: [
        { name: 'PORT', value: '80' },
        { name: 'PASSWORD', value: secret, secret: true }
      ]
    })
    t.match(put.body, {
      success: true,
      variables: [
        { name: 'PASSWORD', value: null, secret: true },
        { name: 'PORT', value: '80', secret: false }
      ]
    })
    t.notOk(put.text.includes(secret))
    t.strictSame((await client.get(pathOf(project))).body, put.body)

    const same = await client.put(pathOf(project), {
      variables: [{ name: 'PASSWORD', value: `${secret}!` }, { name: 'PORT' }]
    })
    t.match(
      same.body.variables,
      [
        { name: 'PASSWORD', value: null, secret: true },
        { name: 'PORT', value: '80' }
      ],
      'it stays a secret'
    )
    const kept = await client.put(pathOf(project), {
      variables: [
        { name: 'PASSWORD', secret: true },
        { name: 'EMPTY', value: '' }
      ]
    })
    t.match(kept.body, {
      variables: [
        { name: 'EMPTY', value: '' },
        { name: 'PASSWORD', value: null, updatedAt: same.body.variables[0].updatedAt }
      ]
    })

    const patched = await client.patch(pathOf(project), {
      variables: [{ name: 'A', value: '1' }],
      unset: ['EMPTY', 'NOT_THERE']
    })
    t.strictSame(namesOf(patched.body.variables), ['A', 'PASSWORD'])
    const imported = await client.patch(pathOf(project), {
      dotenv: '# x\nexport B="two\\nlines"\nC=three # no\n',
      secret: false
    })
    t.match(imported.body.variables, [
      { name: 'A' },
      { name: 'B', value: 'two\nlines' },
      { name: 'C', value: 'three' },
      { name: 'PASSWORD' }
    ])

    const audit = await client.get('/api/audit?action=project.variables')
    const details = audit.body.items.map(({ detail }: { detail: string }) => detail)
    t.strictSame(details, [
      'set B, C',
      'set A; removed EMPTY',
      'set EMPTY; removed PORT',
      'set PASSWORD',
      'set PORT, PASSWORD'
    ])
    t.notOk(audit.text.includes(secret))
    await client.put(pathOf(project), { variables: imported.body.variables })
    t.equal(
      (await client.get('/api/audit?action=project.variables')).body.items.length,
      5,
      'what changes nothing is no change'
    )
  })

  t.test('refuses an invalid value with its field, and changes nothing', async t => {
    const before = (await client.get(pathOf(project))).text
    const many = Array.from({ length: 201 }, (_, index) => ({ name: `N${index}`, value: '' }))
    const large = Array.from({ length: 5 }, (_, index) => ({ name: `L${index}`, value: 'x'.repeat(60_000) }))
    const cases: Array<[body: object, field: string]> = [
      [{}, 'variables'],
      [{ variables: 7 }, 'variables'],
      [{ variables: ['x'] }, 'variables[0]'],
      [
        {
          variables: [
            { name: 'OK', value: '1' },
            { name: 'PATH', value: '1' }
          ]
        },
        'variables[1].name'
      ],
      [{ variables: [{ name: 'SVC_X', value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ name: 'LD_X', value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ name: 'A B', value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ value: '1' }] }, 'variables[0].name'],
      [{ variables: [{ name: 'A', value: 1 }] }, 'variables[0].value'],
      [{ variables: [{ name: 'A', value: 'x\0' }] }, 'variables[0].value'],
      [{ variables: [{ name: 'A', value: 'x', secret: 'yes' }] }, 'variables[0].secret'],
      [{ variables: [{ name: 'A', value: 'abc', secret: true }] }, 'variables[0].value'],
      [
        {
          variables: [
            { name: 'A', value: '1' },
            { name: 'A', value: '2' }
          ]
        },
        'variables[1].name'
      ],
      [{ variables: [{ name: 'NEW', secret: true }] }, 'variables[0].value'],
      [{ variables: [{ name: 'NEW' }] }, 'variables[0].value'],
      [{ variables: [{ name: 'PASSWORD', secret: false }] }, 'variables[0].value'],
      [{ variables: [{ name: 'PASSWORD', value: 'abc' }] }, 'variables[0].value'],
      [{ variables: many }, 'variables'],
      [{ variables: large }, 'variables']
    ]
    for (const [body, field] of cases) {
      const reply = await client.put(pathOf(project), body)
      t.match(
        reply,
        { status: 400, body: { success: false, code: 'invalid_field', field } },
        JSON.stringify(body).slice(0, 80)
      )
    }
    const patches: Array<[body: object, field: string]> = [
      [{ unset: 'A' }, 'unset'],
      [{ unset: ['A B'] }, 'unset[0]'],
      [{ variables: [{ name: 'A', value: '' }], unset: ['A'] }, 'unset'],
      [{ dotenv: 'nothing here' }, 'dotenv'],
      [{ dotenv: 'PATH=/x' }, 'dotenv'],
      [{ dotenv: 'A=b', secret: true }, 'dotenv']
    ]
    for (const [body, field] of patches)
      t.match(await client.patch(pathOf(project), body), { status: 400, body: { field } }, field)
    t.equal((await client.get(pathOf(project))).text, before)
    t.equal((await client.get('/api/projects/proj_none/variables')).status, 404)
    t.equal((await client.put('/api/projects/proj_none/variables', { variables: [] })).status, 404)
    for (const method of ['GET', 'PUT', 'PATCH']) {
      t.equal((await stage.as(project.token).send(method, pathOf(project))).status, 403, 'the deploy token is refused')
      t.equal((await stage.as(null).send(method, pathOf(project))).status, 401)
    }
  })

  t.test('simultaneous changes are all kept', async t => {
    const other = await stage.createProject('at-once')
    const names = Array.from({ length: 20 }, (_, index) => `N${index}`)
    await Promise.all(names.map(name => set(stage, other, [{ name, value: `value of ${name}`, secret: true }])))
    t.strictSame(namesOf((await client.get(pathOf(other))).body.variables), [...names].sort())
    const wholes = names.map(name => [
      { name, value: 'x', secret: false },
      { name: `${name}_B`, value: 'y' }
    ])
    await Promise.all(wholes.map(variables => client.put(pathOf(other), { variables })))
    const last = namesOf((await client.get(pathOf(other))).body.variables)
    t.ok(
      wholes.some(whole => JSON.stringify(whole.map(({ name }) => name)) === JSON.stringify(last)),
      `one of them, whole: ${last.join()}`
    )
  })

  t.test('deleting a project deletes its variables', async t => {
    const gone = await stage.createProject('gone')
    await set(stage, gone, [{ name: 'PASSWORD', value: secret, secret: true }])
    t.equal((await client.delete(`/api/projects/${gone.id}`)).status, 200)
    t.equal((await client.get(pathOf(gone))).status, 404)
  })
})

t.test('scripts get the values, and secrets appear nowhere else', async t => {
  const stage = await startServer(t)
  const { client } = stage
  const script = [
    'echo "port=$PORT env=$FROM_CLIENT who=$WHO"',
    'echo "password: $PASSWORD"; echo "$PASSWORD" | fold -w 5',
    'tr "\\0" " " < /proc/$$/cmdline | grep -c "[c]orrect-horse" || true',
    'ps -e -o args= | grep -c "[c]orrect-horse" || true',
    'echo "$KEY"',
    'exit 3'
  ].join('\n')
  const project = await stage.createProject('site', { postDeployScript: script })
  await set(stage, project, [
    { name: 'PORT', value: '8080' },
    { name: 'WHO', value: 'server' },
    { name: 'PASSWORD', value: secret, secret: true },
    { name: 'KEY', value: 'first line of it\nsecond line of it', secret: true }
  ])
  const { status, lines, deployId } = await push(stage, project, {
    env: JSON.stringify({ WHO: 'client', FROM_CLIENT: 'yes' })
  })
  t.equal(status, 'failed')
  const text = lines.join('\n')
  t.match(text, 'port=8080 env=yes who=server')
  t.match(text, '"WHO" (the project sets it on the server)', 'reports ignored variables')
  t.match(text, 'password: ***')
  t.equal(lines.filter(line => line === '***').length, 7, `folded and by lines: ${text}`)
  t.strictSame(
    lines.filter(line => /^\d+$/.test(line)),
    ['0', '0'],
    'in no list of processes'
  )
  const record = await client.get(`/api/logs/${deployId}`)
  t.equal(record.status, 200)
  for (const [where, shown] of [
    ['the stream', text],
    ['the record', record.text],
    ['the audit', (await client.get('/api/audit')).text]
  ]) {
    t.notOk(/correct-horse|battery|line of it/.test(shown as string), `not in ${where}`)
  }
  await until(() => filesOf(stage.home.directory).length > 0)
  for (const [path, contents] of filesOf(stage.home.directory))
    t.notOk(/correct-horse|second line of it/.test(contents), path)

  const key = statSync(stage.home.variablesKey)
  if (process.platform !== 'win32') t.equal(key.mode & 0o777, 0o600)
})

t.test('secrets are masked in error messages', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site', { postDeployScript: 'true', scriptDirectory: 'apps-secret-word' })
  await set(stage, project, [{ name: 'WORD', value: 'secret-word', secret: true }])
  const { deployId, lines } = await push(stage, project)
  const { body } = await stage.client.get(`/api/logs/${deployId}`)
  t.match(body, { status: 'failed', errorMessage: /working directory "apps-\*\*\*" does not exist in the target/ })
  t.notOk(lines.join('\n').includes('secret-word'))
})

t.test('a secret whose key is missing never becomes an empty value', async t => {
  const stage = await startServer(t)
  const { client, home } = stage
  const project = await stage.createProject('site', { postDeployScript: 'echo "[$PASSWORD]"' })
  const other = await stage.createProject('other', { postDeployScript: 'echo "[$PASSWORD]"' })
  for (const each of [project, other])
    await set(stage, each, [{ name: 'PASSWORD', value: `${secret} of ${each.name}`, secret: true }])
  t.match((await client.get('/api/health/detail')).body.secrets, { ok: true, why: null, unreadable: [] })

  renameSync(home.variablesKey, `${home.variablesKey}.aside`)
  const lost = await push(stage, project)
  t.equal(lost.status, 'failed')
  t.match(
    lost.lines.join('\n'),
    /Cannot read the secret "PASSWORD": the file is missing\. Restore ".*variables\.key" from a backup/
  )
  t.notOk(lost.lines.includes('[]'))
  t.match((await client.get('/api/health/detail')).body.secrets, {
    ok: false,
    unreadable: [`${project.id}: PASSWORD`, `${other.id}: PASSWORD`].sort()
  })
  const refused = await set(stage, project, [{ name: 'NEW', value: secret, secret: true }])
  t.match(refused, { status: 503, body: { code: 'variables_key' } }, 'no second key while secrets need the first')
  t.equal(
    (await set(stage, project, [{ name: 'PLAIN', value: 'x' }])).status,
    200,
    'plain variables do not need the key'
  )

  writeFileSync(home.variablesKey, `${'ab'.repeat(32)}\n`, { mode: 0o600 })
  const wrong = await push(stage, project)
  t.match(wrong.lines.join('\n'), /"PASSWORD": it was encrypted with another key/)

  renameSync(`${home.variablesKey}.aside`, home.variablesKey)
  t.ok((await push(stage, project)).lines.includes('[***]'), 'the correct key is restored')
  const script = await stage.createProject('no-script')
  await set(stage, script, [{ name: 'PASSWORD', value: secret, secret: true }])
  renameSync(home.variablesKey, `${home.variablesKey}.aside`)
  t.equal((await push(stage, script)).status, 'success', 'a deployment without scripts does not need the key')
})

t.test('a sealed value cannot be opened in another row', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('site', { postDeployScript: 'echo "[$A] [$B]"' })
  await set(stage, project, [
    { name: 'A', value: 'value of a', secret: true },
    { name: 'B', value: 'value of b', secret: true }
  ])
  await stage.server.stop({ wait: true })
  const sqlite = await loadSqlite()
  const database = new sqlite.Database(readFileSync(stage.home.database))
  database.exec(`
    CREATE TEMP TABLE before AS SELECT * FROM variables;
    UPDATE variables SET value = (SELECT value FROM before WHERE before.name <> variables.name)`)
  writeFileSync(stage.home.database, database.export())
  database.close()
  chmodSync(stage.home.database, 0o600)
  await stage.restart().catch(error => t.fail(String(error)))
  const { lines } = await push(stage, project)
  t.match(
    lines.join('\n'),
    /Cannot read the secrets "A", "B": the stored value is damaged or belongs to something else/
  )
})
