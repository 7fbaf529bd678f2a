import { readFileSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import type { ApiRoute } from '../../lib/api/route.js'
import { ask, pathOf, rankOf } from '../support/canary-asking.js'
import { localClient, plantFleet, type AskedRecords } from '../support/canary-fleet.js'
import { defaultApproval } from '../../lib/model/policy.js'
import { eventsOf, type Client } from '../support/client.js'
import { startServer } from '../support/server.js'
import { until } from '../support/until.js'
import { textReaders } from '../support/project-examples.js'
import { isZip, unzippedText } from '../support/unzipped.js'
import { zipOf } from '../support/zip.js'

/*
 * A canary in each text that a request can store, and every answer to each kind of caller and to nodes searched for it,
 * also in the archives among them. The description of the API says which texts a request has: one that this table does
 * not name fails the test. Every route is asked but those in `passedOver`, those that only read first.
 */

const callers = ['viewer', 'deployer', 'reader', 'project', 'operator', 'admin', 'local'] as const
type CallerName = (typeof callers)[number]

/** The readers of a text: `reader` is a viewer with the right to scripts, `project` the deploy token. */
const mayRead: Record<string, readonly CallerName[]> = {
  everybody: callers,
  scripts: ['operator', 'reader', 'project', 'admin', 'local'],
  files: ['operator', 'project', 'admin', 'local'],
  operators: ['operator', 'admin', 'local'],
  admins: ['admin', 'local'],
  nobody: []
}

/** The answers that are archives, and what their readers read in them and nowhere else, with the reason. */
const archives: Record<string, { besides: readonly string[]; why: string }> = {
  '/api/migration/export': {
    besides: ['notification-targets.url', 'notification-targets.secret'],
    why: 'another server sends the same messages; the secrets of projects are not in the package'
  },
  '/api/backup': {
    besides: ['notification-targets.url', 'notification-targets.secret', 'keys.server'],
    why: 'a restored server signs and sends messages, and the key of all other secrets is in the backup'
  }
}

const readers: Record<string, string> = {
  'tokens.name': 'everybody',
  ...Object.fromEntries(Object.entries(textReaders).map(([field, readers]) => [`projects.${field}`, readers])),
  'projects.policy.gate.after[].http': 'everybody',
  'projects.policy.gate.after[].contains': 'everybody',
  'projects.policy.gate.after[].header.*': 'nobody',
  'projects.policy.gate.after[].command': 'scripts',
  'projects.policy.gate.after[].log': 'everybody',
  'projects.policy.gate.after[].none': 'everybody',
  'projects.policy.onFailureScript': 'scripts',
  'projects.policy.fileMode': 'everybody',
  'projects.policy.directoryMode': 'everybody',
  'projects.policy.group': 'everybody',
  'projects.policy.maintenanceFile': 'everybody',
  'projects.policy.maintenancePage': 'everybody',
  'projects.policy.protect[]': 'everybody',
  'projects.variables[].name': 'everybody',
  'projects.variables[].value': 'nobody',
  'projects.dotenv': 'operators',
  'projects.reason': 'everybody',
  'lock.reason': 'everybody',
  'categories.name': 'everybody',
  'tags.name': 'everybody',
  'deploy.preDeploy': 'scripts',
  'deploy.postDeploy': 'scripts',
  'deploy.env': 'nobody',
  'deploy.message': 'everybody',
  'deploy.override': 'everybody',
  'deployments.comment': 'everybody',
  'projects.policy.windows.freeze[].reason': 'everybody',
  'deploy.provenance': 'everybody',
  'projects.items[].filePath': 'everybody',
  'projects.items[].label': 'everybody',
  'projects.policy.rollout.order': 'everybody',
  'projects.add[].deployPath': 'everybody',
  // In the archive that is sent.
  'deploy.file': 'files',
  'nodes.name': 'everybody',
  'nodes.labels.*': 'everybody',
  'rollouts.reason': 'everybody',
  'agent.name': 'everybody',
  'agent.labels.*': 'everybody',
  'agent.version': 'everybody',
  'agent.answers[].error': 'everybody',
  // The command of a check, in an error as agents of earlier versions report it.
  'agent.answers[].error.command': 'nobody',
  'agent.answers[].failedStep': 'everybody',
  'agent.answers[].output': 'everybody',
  'agent.placements[].liveDeployId': 'everybody',
  'agent.placements[].liveTree': 'everybody',
  'enrollments.name': 'operators',
  'enrollments.labels.*': 'admins',
  'settings.*': 'admins',
  // The audit log names it.
  'notification-targets.name': 'operators',
  'notification-targets.url': 'nobody',
  'notification-targets.secret': 'nobody',
  // Not texts of requests: what the server makes and keeps for itself.
  'keys.server': 'nobody'
}

/** What a node reads of the project that it has: what it needs to deploy it. */
const nodeTexts = [
  'deploy.env',
  'deploy.file',
  'deploy.message',
  'deploy.preDeploy',
  'projects.add[].deployPath',
  'projects.allowedEnv[]'
]

/** Routes that are not asked, with the reason. */
const passedOver: Record<string, string> = {
  'GET /api/nodes/:node/at/*path': 'a node answers it, with the masks of its own server: test/api/agent.test.ts',
  'POST /api/auth/local': 'it answers with the token of the admin, to nobody else',
  'POST /api/auth/reset': 'it replaces the token of the admin'
}

/** Texts of a fixed form, ids of records, bodies of bytes, and texts of which another row has the canary. */
const others =
  /^(auth|cluster|public|migration|storage|log-sources|signing-keys)\.|^agent\.$|^uploads\.(sha256)?$|\.(projectIds|tagIds|ids|allowedIps|unset|remove|paths)\[\]$|\.(expiresAt|takeOver|categoryId|projectId|planId|startAt|file|rollout|oldToken|newToken|runAs|umask|scriptShell|status|tcp|message|token|publicKey|projectId|rolloutId|then|maxUnreachable)$|^projects\.(from|override)$|\.windows\.(tz$|(allow|freeze)\[\]\.(days|from|to)$)|\.add\[\]\.(node)$|^deploy(ments)?\.(base|tree|treeSha256|patches|uploadId|statement|signature|sbom)?$|\.signatures\.keys\[\]$/

const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

interface Schema {
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  properties?: Record<string, Schema>
  items?: Schema
  additionalProperties?: Schema | boolean
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
}

interface Described {
  paths: Record<string, Record<string, { requestBody?: { content?: Record<string, { schema?: Schema }> } }>>
}

/** Returns the texts that the requests of the API have, as `<record>.<field>`. */
function textsOf(described: Described): Set<string> {
  const found = new Set<string>()
  const follow = (schema: Schema): Schema =>
    schema.$ref === undefined
      ? schema
      : (schema.$ref
          .slice(2)
          .split('/')
          .reduce((at, key) => (at as Record<string, unknown>)[key], described as unknown) as Schema)
  const walk = (given: Schema, at: string, above: readonly Schema[] = []): void => {
    const schema = follow(given)
    if (above.includes(schema)) return
    const path = [...above, schema]
    const isText = [schema.type ?? []].flat().includes('string') && schema.enum === undefined
    if (isText && schema.const === undefined) found.add(at.includes('.') ? at : `${at}.`)
    for (const [name, each] of Object.entries(schema.properties ?? {})) walk(each, `${at}.${name}`, path)
    if (schema.items !== undefined) walk(schema.items, `${at}[]`, path)
    if (typeof schema.additionalProperties === 'object') walk(schema.additionalProperties, `${at}.*`, path)
    for (const each of [schema.anyOf, schema.oneOf, schema.allOf].flatMap(list => list ?? [])) walk(each, at, path)
  }
  for (const [path, methods] of Object.entries(described.paths))
    for (const { requestBody } of Object.values(methods))
      for (const { schema } of Object.values(requestBody?.content ?? {}))
        if (schema !== undefined) walk(schema, path.split('/')[2] as string)
  return found
}

t.test('each text that is stored is read only by its readers', async t => {
  const stage = await startServer(t)
  const { client, sites, url } = stage
  const planted = new Map<string, string>()
  const plant = (key: string, before = ''): string => {
    const canary = planted.get(key) ?? `cnry${String(planted.size).padStart(3, '0')}x`
    planted.set(key, canary)
    return before + canary
  }
  const done = async (reply: Promise<{ status: number; text: string; body: any }>): Promise<any> => {
    const { status, text, body } = await reply
    if (status !== 200) throw new Error(`${status}: ${text}`)
    return body
  }

  const described = (await client.get('/api/openapi.json')).body as Described
  const unclassified = [...textsOf(described)].filter(key => !(key in readers) && !others.test(key))
  t.same(unclassified, [], 'every text of a request is in the table')

  const log = plant('projects.policy.gate.after[].log')
  const name = plant('projects.name')
  const { category } = await done(client.post('/api/categories', { name: plant('categories.name'), color: 'blue' }))
  const { tag } = await done(client.post('/api/tags', { name: plant('tags.name'), color: 'blue' }))
  const project = await stage.createProject(name, {
    deployPath: join(sites, plant('projects.deployPath')),
    description: plant('projects.description'),
    env: plant('projects.env'),
    pm2AppName: plant('projects.pm2AppName'),
    postDeployScript: plant('projects.postDeployScript', ': '),
    allowedEnv: [plant('projects.allowedEnv[]')],
    policy: {
      gate: {
        after: [
          {
            http: `${url}/api/health?${plant('projects.policy.gate.after[].http')}`,
            header: { Authorization: plant('projects.policy.gate.after[].header.*') }
          },
          { command: plant('projects.policy.gate.after[].command', ': ') },
          { http: `${url}/api/health`, contains: plant('projects.policy.gate.after[].contains') },
          { log, none: plant('projects.policy.gate.after[].none'), for: 1 }
        ],
        interval: 0.1,
        timeout: 1,
        deadline: 1,
        successes: 1,
        stableFor: 0,
        onFailure: 'keep'
      },
      maintenanceFile: plant('projects.policy.maintenanceFile'),
      maintenancePage: plant('projects.policy.maintenancePage'),
      protect: [plant('projects.policy.protect[]')]
    },
    categoryId: category.id,
    tagIds: [tag.id]
  })
  const { id } = project
  const variables = [
    { name: plant('projects.variables[].name'), value: plant('projects.variables[].value'), secret: true }
  ]
  await done(client.put(`/api/projects/${id}/variables`, { variables }))
  await done(client.patch(`/api/projects/${id}/variables`, { set: [], dotenv: plant('projects.dotenv', 'PLAIN=') }))
  const items = [{ filePath: join(sites, plant('projects.items[].filePath')), label: plant('projects.items[].label') }]
  writeFileSync(items[0]?.filePath as string, 'a line\n')
  const sources = await done(client.post(`/api/projects/${id}/log-sources`, { items }))
  const { target } = await done(
    client.post('/api/notification-targets', {
      name: plant('notification-targets.name'),
      kind: 'generic',
      url: `http://127.0.0.1:9/${plant('notification-targets.url')}`,
      secret: plant('notification-targets.secret')
    })
  )
  await done(client.put('/api/settings', { global_deploy_token: plant('settings.*', 'the-global-token-') }))
  await done(
    client.post('/api/enrollments', { name: plant('enrollments.name'), labels: { a: plant('enrollments.labels.*') } })
  )
  const allowedEnv = [plant('projects.allowedEnv[]')]
  const bytes = await zipOf({ 'a.txt': plant('deploy.file') })
  const fields: Parameters<Client['upload']>[0] = [
    ['preDeploy', plant('deploy.preDeploy', ': ')],
    ['env', JSON.stringify({ [allowedEnv[0] as string]: plant('deploy.env') })],
    ['message', plant('deploy.message')],
    ['override', plant('deploy.override')],
    ['provenance', JSON.stringify({ branch: plant('deploy.provenance') })],
    ['file', { filename: 'a.zip', bytes }]
  ]
  const firstBytes = await zipOf({ 'a.txt': plant('deploy.file'), 'b.txt': 'another release' })
  const placed = await plantFleet(t, stage, { plant, done, fields, allowedEnv })
  const reply = await stage
    .as(project.token)
    .upload([['projectId', id], ...fields.slice(0, -1), ['file', { filename: 'a.zip', bytes: firstBytes }]])
  const deployId = eventsOf(reply).at(-1).deployId as string
  await done(client.put(`/api/projects/${id}`, { policy: { approval: defaultApproval } }))
  const rejected = stage.as(project.token).upload([['projectId', id], fields.at(-1) as (typeof fields)[number]])
  let held: string | undefined
  await until(async () => (held = (await client.get('/api/logs?status=queued')).body[0]?.id) !== undefined)
  await done(client.post(`/api/deployments/${held}/reject`, { comment: plant('deployments.comment') }))
  await rejected
  const reason = plant('projects.policy.windows.freeze[].reason')
  const windows = { allow: [], freeze: [{ from: '2020-01-01', to: '2020-01-02', reason }], tz: 'UTC' }
  await done(client.put(`/api/projects/${id}`, { policy: { windows, approval: null } }))
  // A script of the project has precedence over that of a client, so these come after the deployment.
  await done(client.put(`/api/projects/${id}`, { preDeployScript: plant('projects.preDeployScript', ': ') }))
  await done(client.put(`/api/projects/${id}/lock`, { reason: plant('projects.reason') }))
  await done(client.put('/api/lock', { reason: plant('lock.reason') }))

  const given: Partial<Record<CallerName, Client>> = { admin: client, local: localClient(stage) }
  for (const role of ['viewer', 'deployer', 'operator'] as const)
    given[role] = stage.as((await done(client.post('/api/tokens', { name: `a ${role}`, role }))).token)
  const reading = { name: plant('tokens.name'), role: 'viewer', showScripts: true }
  const { token: secret, record: reader } = await done(client.post('/api/tokens', reading))
  given.reader = stage.as(secret)

  // It is made with the first checkpoint.
  await done(client.get('/api/audit/checkpoint'))
  planted.set('keys.server', readFileSync(join(stage.home.keys, 'server.ed25519'), 'utf8').split('\n')[1] as string)

  const routes = apiRoutes(stage.server.services.api).filter(({ method, path }) => !(`${method} ${path}` in passedOver))
  const seen = new Map<string, Set<CallerName>>()
  const wrong: string[] = []
  const unpacked = new Map<string, Set<string>>()
  const answered = { read: 0, changed: 0 }
  const canariesIn = (text: string): string[] => {
    // Found in one pass: most answers are long, and contain none.
    const found = new Set(text.match(/cnry\d{3}x/g))
    const isIn = (each: string): boolean => found.has(each) || (!each.startsWith('cnry') && text.includes(each))
    return [...planted].flatMap(([key, each]) => (isIn(each) ? [key] : []))
  }
  const search = async (route: ApiRoute, record: AskedRecords, caller: CallerName): Promise<void> => {
    const { method, path } = route
    const answer = await ask(route, record, given[caller] ?? stage.as(record.token))
    if (answer === null) return
    const { status, headers, bytes } = answer
    if (status === 200) answered[method === 'GET' ? 'read' : 'changed']++
    const found = isZip(bytes) ? (unpacked.get(path) ?? new Set<string>()) : null
    if (found !== null) unpacked.set(path, found)
    for (const key of canariesIn(JSON.stringify(headers) + (await unzippedText(bytes)))) {
      found?.add(key)
      seen.set(key, (seen.get(key) ?? new Set()).add(caller))
      const isOfArchive = found !== null && archives[path]?.besides.includes(key)
      if (isOfArchive || mayRead[readers[key] as string]?.includes(caller)) continue
      wrong.push(`${caller} reads ${key} in ${method} ${path}`)
    }
  }
  const ids = { categories: category.id, tags: tag.id, tokens: reader.id, 'notification-targets': target.id }
  const archiveSha256 = sha256(firstBytes)
  const first = { id, deployId, token: project.token, source: sources.items[0].id, archiveSha256, ids }
  const records: AskedRecords[] = [first, { ...placed, archiveSha256: sha256(bytes) }]
  for (const record of records)
    for (const caller of callers)
      for (const route of routes.filter(({ method }) => method === 'GET')) await search(route, record, caller)

  // A node reads the releases of its projects, and nothing of others.
  const ofNodes = routes.filter(({ path }) => /^\/api\/agent\/(?!enroll|desired|relays)/.test(path))
  const nodeReads = new Set(canariesIn(JSON.stringify(placed.placedNode.orders)))
  for (const agent of [placed.placedNode.agent, placed.otherNode]) {
    for (const record of records) {
      for (const { method, path } of ofNodes) {
        const ranges = [0, record === first ? firstBytes.length : bytes.length]
        const { body } = await agent.request(method, pathOf(path, record), method === 'GET' ? undefined : { ranges })
        const found = canariesIn(await unzippedText(body))
        for (const key of found) nodeReads.add(key)
        const isItsOwn = agent === placed.placedNode.agent && record !== records[0]
        if (found.length > 0 && !isItsOwn)
          wrong.push(`a node reads ${found.join()} of a project that it does not have in ${method} ${path}`)
      }
    }
  }
  t.same([...nodeReads].sort(), nodeTexts)

  // Callers with more rights come later.
  const changing = routes.filter(({ method }) => method !== 'GET').sort((a, b) => rankOf(a) - rankOf(b))
  await done(client.delete('/api/lock'))
  await done(client.delete(`/api/projects/${id}/lock`))
  for (const caller of callers.filter(name => name !== 'local'))
    for (const record of records) for (const route of changing) await search(route, record, caller)

  t.ok(answered.read > 150 && answered.changed > 50, JSON.stringify(answered))
  t.same(wrong, [], 'nobody reads what is not for them')
  const unseen = [...planted.keys()].filter(key => readers[key] !== 'nobody' && !seen.get(key)?.has('admin'))
  t.same(unseen, [], 'an admin reads what was searched for')
  t.same([...unpacked.keys()].sort(), Object.keys(archives).sort(), 'every archive is in the table')
  t.ok(unpacked.get('/api/migration/export')?.has('deploy.file'), 'archives in archives are searched')
  for (const [path, { besides, why }] of Object.entries(archives))
    for (const key of besides) t.ok(unpacked.get(path)?.has(key), `${key} is in ${path}: ${why}`)
})
