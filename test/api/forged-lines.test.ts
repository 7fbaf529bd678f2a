import { join } from 'node:path'
import t from 'tap'
import { oneLine } from '../../lib/base/text.js'
import { eventsOf } from '../support/client.js'
import { startServer } from '../support/server.js'
import { zipOf } from '../support/zip.js'

const forgeries = [
  '\n✓ success in 0.01s',
  '\r',
  '\t',
  '\x1b[2K',
  '\x07',
  '\x85',
  '\u2028',
  '\u202e',
  '\u2066',
  '\u200f',
  '\ud800'
]

t.test('text of one line', async t => {
  const stage = await startServer(t)
  const { client, sites } = stage
  const project = await stage.createProject('shop')
  const at = `/api/projects/${project.id}`
  const {
    body: { category }
  } = await client.post('/api/categories', { name: 'Web' })
  const zip = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'x' }) }

  t.test('refuses characters that forge a line or its order in every name, path and message', async t => {
    for (const bad of forgeries.map(forgery => `a${forgery}b`)) {
      const path = join(sites, bad)
      for (const [field, reply] of [
        ['name', await client.post('/api/projects', { name: bad, deployPath: join(sites, 'x') })],
        ['deployPath', await client.post('/api/projects', { name: 'x', deployPath: path })],
        ['name', await client.put(at, { name: bad })],
        ['env', await client.put(at, { env: bad })],
        ['deployPath', await client.put(at, { deployPath: path })],
        ['pm2AppName', await client.put(at, { pm2AppName: bad })],
        ['name', await client.post('/api/categories', { name: bad })],
        ['name', await client.put(`/api/categories/${category.id}`, { name: bad })],
        ['name', await client.post('/api/tags', { name: bad })],
        ['items[0].filePath', await client.post(`${at}/log-sources`, { items: [{ filePath: `/var/log/${bad}` }] })],
        ['items[0].label', await client.post(`${at}/log-sources`, { items: [{ filePath: '/var/log/x', label: bad }] })],
        ['default_deploy_path', await client.put('/api/settings', { default_deploy_path: path })],
        [
          'message',
          await stage.as(project.token).upload([
            ['message', bad],
            ['projectId', project.id],
            ['file', zip]
          ])
        ],
        ['message', await client.post('/api/deployments/dep_x/rollback', { message: bad })]
      ] as const) {
        // A form is UTF-8, which has no unpaired surrogates.
        if (field === 'message' && bad.includes('\ud800') && reply.status !== 400) continue
        t.match(reply, { status: 400, body: { field } }, `${field} ${oneLine(bad)}`)
      }
    }
    t.match((await client.get(at)).body, { name: 'shop', env: 'production' })
  })

  t.test('refuses a control character in a path to read or write', async t => {
    for (const bad of ['a\nb', 'a\rb', 'a\x1bb', 'a\x00b', 'a\x85b'].map(encodeURIComponent)) {
      for (const [field, reply] of [
        ['path', await client.get(`/api/fs/list?path=${encodeURIComponent(`${sites}/`)}${bad}`)],
        ['path', await client.get(`${at}/files?path=${bad}`)],
        ['path', await client.get(`${at}/file?path=${bad}`)],
        ['path', await client.get(`${at}/download?path=${bad}`)],
        ['to', await client.get(`/api/migration/export?to=${bad}`)]
      ] as const) {
        t.match(reply, { status: 400, body: { field } }, `${field} ${bad}`)
      }
    }
  })

  t.test('accepts texts of several lines where they are allowed', async t => {
    const fields = { description: 'One\n\tTwo', preDeployScript: 'true\ntrue\t# \u202e', postDeployScript: '' }
    t.match(await client.put(at, fields), { status: 200, body: { project: fields } })
    const reply = await stage.as(project.token).upload([
      ['projectId', project.id],
      ['postDeploy', 'echo "$TEXT"\necho b'],
      ['env', JSON.stringify({ TEXT: 'x\ny' })],
      ['file', zip]
    ])
    t.match(
      eventsOf(reply)
        .map(({ data }) => data)
        .join('\n'),
      /\nx\ny\nb\n/
    )
  })
})

t.test('validates allowedEnv, and passes only these variables of a client to scripts', async t => {
  const stage = await startServer(t)
  const { client, sites } = stage
  const project = await stage.createProject('shop')
  const at = `/api/projects/${project.id}`
  t.strictSame((await client.get(at)).body.allowedEnv, [])
  const made = await client.post('/api/projects', {
    name: 'b',
    deployPath: join(sites, 'b'),
    allowedEnv: ['NODE_ENV', 'APP_*', 'NODE_ENV']
  })
  t.match(made, { status: 200, body: { project: { allowedEnv: ['NODE_ENV', 'APP_*'] } } })
  t.strictSame((await client.get(`/api/projects/${made.body.project.id}`)).body.allowedEnv, ['NODE_ENV', 'APP_*'])
  for (const bad of ['*', '', '1A', 'A B', 'A**', 'PATH', 'LD_*', 'SVC_TOKEN', 'A\n', 5, null]) {
    const reply = await client.put(at, { allowedEnv: ['OK', bad] })
    t.match(reply, { status: 400, body: { field: 'allowedEnv[1]' } }, JSON.stringify(bad))
  }
  t.equal((await client.put(at, { allowedEnv: 'A' })).status, 400)
  t.equal((await client.put(at, { allowedEnv: Array.from({ length: 101 }, (_, index) => `A${index}`) })).status, 400)
  t.equal((await client.put(at, { allowedEnv: Array.from({ length: 100 }, (_, index) => `A${index}`) })).status, 200)
  await client.put(at, {
    allowedEnv: ['APP_*'],
    allowClientScripts: false,
    postDeployScript: 'echo "$APP_MODE,$GIT_SSH,"'
  })
  const zip = { filename: 'site.zip', bytes: await zipOf({ 'index.html': 'x' }) }
  const env = JSON.stringify({ APP_MODE: 'blue', GIT_SSH: '/tmp/evil' })
  const reply = await stage.as(project.token).upload([
    ['projectId', project.id],
    ['env', env],
    ['file', zip]
  ])
  const lines = eventsOf(reply).map(({ data }) => String(data))
  t.ok(lines.includes('blue,,'))
  t.ok(lines.some(line => line.includes('"GIT_SSH"') && line.includes('allowedEnv')))
  t.notMatch(lines.join('\n'), '/tmp/evil')
})
