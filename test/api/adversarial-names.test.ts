import { readDocument } from '../support/described.js'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { apiRoutes } from '../../lib/api/routes.js'
import { settingRows } from '../../lib/projects/settings.js'
import { createRandom } from '../support/random.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { repetitions } from '../support/thorough.js'

/*
 * Sends difficult names in every field that a client can set. The fields are read from the sources of the API, so new
 * ones are included. Every response must be complete and never a 500, and the server must keep running.
 */

// Unknown parameters are ignored; the test sends some as well.
process.env['ANY_PARAMETERS'] = '1'
const api = new URL('../../../lib/api/', import.meta.url)
const source = readdirSync(api)
  .filter(name => name.endsWith('.ts'))
  .map(name => readFileSync(new URL(name, api), 'utf8'))
  .join('\n')

function found(pattern: RegExp): string[] {
  return [...new Set([...source.matchAll(pattern)].map(match => match[1] as string))]
}

const described = Object.values(readDocument().paths).flatMap(each => Object.values(each))
const bodyFields = (media: string): string[] =>
  described.flatMap(({ requestBody }) => Object.keys(requestBody?.content[media]?.schema.properties ?? {}))
const fields = [...new Set([...bodyFields('application/json'), ...settingRows.map(({ key }) => key)])]
// The options of an import are read by one list, from the query and from the form (api/transfer.ts).
const importOptions = ['strategy', 'restoreArtifacts', 'accessSettings', 'dryRun']
const parameters = found(
  /\bquery(?:Text|Limit|Choice|Offset|Path|Count|Time)?(?:\(\s*(?:request\.)?query,\s*|\.(?:get|has|getAll)\()'(\w+)'/g
).concat(importOptions)
const formFields = [...new Set(bodyFields('multipart/form-data').filter(name => name !== 'file'))]

const names = [
  '',
  ' ',
  '.',
  '..',
  '/',
  '\\',
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  '__defineGetter__',
  'hasOwnProperty',
  'then',
  'null',
  'undefined',
  'NaN',
  '-1',
  '1e999',
  '0x10',
  '9'.repeat(30),
  'a\0b',
  '\x01\x02\x1f',
  '\x7f',
  '\r\nset-cookie: a=b',
  '\t',
  '\u0085',
  '\u2028',
  '\ud800',
  'a\udc00b',
  '\udfff\ud800',
  '\u202egnp.exe',
  '\u2066\u2069\u200f',
  '\ufeff',
  '\ufffd',
  '\uffff',
  'é',
  'e\u0301',
  '😀',
  '字'.repeat(85),
  'a'.repeat(255),
  'é'.repeat(127),
  'a'.repeat(256),
  '%',
  '%00',
  '%2e%2e',
  '%s%n',
  "'; DROP TABLE projects; --",
  '<script>',
  '${PATH}',
  '$(id)',
  '../../../../etc/passwd',
  'CON',
  'a.',
  '*',
  '?',
  '[',
  '(',
  '*'.repeat(100),
  ',',
  ';',
  ':',
  '=',
  '"',
  '[object Object]',
  '-rf',
  '--help'
] as const
const values: unknown[] = [
  ...names,
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  [],
  {},
  [null],
  [['a']],
  ['__proto__'],
  ['\ud800'],
  { ['__proto__']: 1, constructor: { prototype: 1 } }
]

t.test('the description lists exactly the parameters that the sources read', async t => {
  const known = described.flatMap(({ parameters: all }) =>
    all.filter(({ in: place }) => place === 'query').map(({ name }) => name)
  )
  const withoutTicket = (all: readonly string[]): string[] => all.filter(name => name !== 'ticket').sort()
  t.strictSame(withoutTicket([...new Set(known)]), withoutTicket([...parameters]))
})

t.test('the fields of the API are found in the sources', async t => {
  for (const name of [
    'name',
    'deployPath',
    'tagIds',
    'preDeployScript',
    'color',
    'filePath',
    'token',
    'purpose',
    'allowed_ips',
    'message',
    'event'
  ])
    t.ok(fields.includes(name), name)
  for (const name of ['limit', 'before', 'q', 'days', 'output', 'projectId', 'strategy', 'path'])
    t.ok(parameters.includes(name), name)
  t.same(
    [...formFields].sort(),
    [
      'projectId',
      'preDeploy',
      'postDeploy',
      'message',
      'postDeployAsync',
      'env',
      'provenance',
      'confirmSeconds',
      'startAt',
      'base',
      'tree',
      'treeSha256',
      'patches',
      'uploadId',
      'statement',
      'signature',
      'sbom',
      'rollout',
      'planId',
      'override',
      ...importOptions
    ].sort()
  )
})

t.test('difficult names in paths, queries, headers and JSON never cause a 500', async t => {
  const stage = await startServer(t)
  const random = createRandom(415)
  const routes = apiRoutes(stage.server.services.api).filter(({ path }) => path !== '/api/backup')
  const project = await stage.createProject('shop')
  const inSites = (name: string): string => join(stage.sites, `x${name.slice(0, 200)}`)

  const bodyOf = (): string => {
    const chosen = fields.filter(() => random.below(4) > 0).map(field => [field, valueOf(field)] as const)
    const odd = random.some(2, () => [random.oneOf(names), random.oneOf(values)] as const)
    return JSON.stringify(Object.fromEntries([...chosen, ...odd]))
  }
  const valueOf = (field: string): unknown => {
    if (field === 'deployPath') return random.below(2) === 0 ? inSites(random.oneOf(names)) : random.oneOf(values)
    if (field.endsWith('Ids') || field === 'ids') return random.some(3, () => random.oneOf(values))
    return random.oneOf(values)
  }
  const queryOf = (): string =>
    random
      .some(5, () => `${encode(random.oneOf(parameters))}=${encode(random.oneOf(names))}`)
      .concat(random.some(1, () => `${encode(random.oneOf(names))}=1`))
      .join('&')

  for (let round = 0; round < repetitions(1, 4); round++) {
    for (const { method, path } of routes) {
      const address = path.replace(/:\w+/g, () => (random.below(3) === 0 ? project.id : encode(random.oneOf(names))))
      const headers: Record<string, string> = { 'x-forwarded-for': `198.51.100.${random.below(250)}` }
      for (const name of random.some(2, () =>
        random.oneOf([
          '__proto__',
          'constructor',
          'range',
          'last-event-id',
          'if-none-match',
          'accept',
          'accept-encoding',
          'cookie',
          'x-forwarded-host',
          'x-confirm-overwrite',
          'origin'
        ])
      )) {
        headers[name] = Buffer.from(random.oneOf(names).replace(/[\0-\x1f\x7f]/g, '')).toString('latin1')
      }
      const hasBody = method !== 'GET' && random.below(8) > 0
      // One field at a time: otherwise the first refused field hides the others.
      const body =
        random.below(2) === 0
          ? bodyOf()
          : JSON.stringify({ name: 'a', deployPath: inSites('a'), [random.oneOf(fields)]: random.oneOf(values) })
      const sent = hasBody ? { headers: { ...headers, 'content-type': 'application/json' }, body } : { headers }
      const reply = await stage.client.send(method, `${address}?${queryOf()}`, sent)
      const isGood = reply.status < 500 || reply.status === 501
      const isWhole = reply.status < 400 || (reply.body?.success === false && typeof reply.body.code === 'string')
      if (!isGood || !isWhole)
        t.fail(
          `${method} ${address}: ${reply.status} ${reply.text.slice(0, 300)} for ${JSON.stringify(sent).slice(0, 600)}`
        )
    }
  }
  t.ok(await isUnharmed(stage))
})

t.test('a difficult name in one field never causes a 500', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  // In parallel, because simultaneous writes share one sync.
  await Promise.all(
    ['name', 'description', 'env', 'deployPath', 'pm2AppName', 'preDeployScript', 'categoryId', 'tagIds'].map(
      async field => {
        for (const name of names) {
          const value = field === 'deployPath' ? join(stage.sites, name) : field === 'tagIds' ? [name] : name
          const reply = await stage.client.put(`/api/projects/${project.id}`, { [field]: value })
          if (
            reply.status !== 200 &&
            reply.status !== 400 &&
            reply.status !== 403 &&
            reply.status !== 404 &&
            reply.status !== 409
          )
            t.fail(`${field}: ${JSON.stringify(value)}: ${reply.status} ${reply.text}`)
          const got = await stage.client.get(`/api/projects/${project.id}`)
          if (got.status !== 200) t.fail(`${field}: ${JSON.stringify(value)} cannot be read again: ${got.text}`)
        }
      }
    )
  )
  await Promise.all(
    ['/api/tags', '/api/categories'].map(async path => {
      for (const name of names) {
        const { status } = await stage.client.post(path, { name })
        if (![200, 400, 409].includes(status)) t.fail(`${path}: ${JSON.stringify(name)}: ${status}`)
      }
    })
  )
  // All names in turn, because each write is synced.
  const apart = repetitions(4, 1)
  await Promise.all(
    settingRows.map(async ({ key }, index) => {
      for (const name of names.filter((_, at) => (at + index) % apart === 0)) {
        const { status, text } = await stage.client.put('/api/settings', { [key]: name })
        if (![200, 400].includes(status)) t.fail(`${key}: ${JSON.stringify(name)}: ${status} ${text}`)
      }
    })
  )
  t.ok(await isUnharmed(stage))
})

t.test('difficult names in an upload form and in its archive never cause a 500', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  mkdirSync(project.deployPath, { recursive: true })
  const bytes = await zipOf({ 'a.txt': 'a' })
  const file: [string, { filename: string; bytes: Uint8Array }] = ['file', { filename: 'a.zip', bytes }]
  const forms = names.flatMap(name => {
    const variable = JSON.stringify(
      Object.fromEntries([
        [name, 'a'],
        ['A', name]
      ])
    )
    return [
      [['projectId', project.id], [name, 'a'], file],
      [['projectId', name], file],
      [['projectId', project.id], ['message', name], file],
      [['projectId', project.id], ['override', name], file],
      [['projectId', project.id], ['env', name], file],
      [['projectId', project.id], ['env', variable], ['postDeploy', ':'], file],
      [['projectId', project.id], ['postDeployAsync', name], file],
      [
        ['projectId', project.id],
        ['file', { filename: name, bytes }]
      ],
      [
        ['projectId', project.id],
        [name, { filename: 'a.zip', bytes }]
      ]
    ] as Array<Array<[string, string | { filename: string; bytes: Uint8Array }]>>
  })
  // One or two of the eight kinds per name, in turn, because a deployment takes long.
  const apart = repetitions(8, 4)
  for (const form of forms.filter((_, at) => (at % 8) % apart === Math.floor(at / 8) % apart)) {
    const reply = await stage.as(project.token).upload(form)
    const isWhole =
      reply.status === 200
        ? /"status":"(success|failed)"/.test(reply.text)
        : reply.status < 500 && reply.body?.success === false
    if (!isWhole)
      t.fail(
        `${JSON.stringify(form.map(([name, value]) => [name, typeof value === 'string' ? value : value.filename]))}: ${reply.status} ${reply.text}`
      )
  }
  t.ok(await isUnharmed(stage))
})

/** Checks that the server logged no error, and that accepted values are unchanged after a restart. */
async function isUnharmed(stage: Stage): Promise<boolean> {
  const failures = stage.told.warn.filter(line => line.includes(' failed ('))
  if (failures.length > 0) throw new Error(failures.slice(0, 3).join('\n'))
  const read = async (): Promise<unknown[]> =>
    Promise.all(
      ['/api/projects', '/api/tags', '/api/categories', '/api/settings', '/api/logs?output=none'].map(
        async path => (await stage.client.get(path)).body
      )
    )
  const before = await read()
  await stage.restart()
  const after = await read()
  if (JSON.stringify(before) !== JSON.stringify(after))
    throw new Error(`not the same after a restart: ${JSON.stringify(before)} ${JSON.stringify(after)}`)
  return true
}

/** Encodes a text for a URL. An unpaired surrogate becomes the three bytes that some programs send. */
function encode(text: string): string {
  return Array.from(text, character => (/\p{Cs}/u.test(character) ? '%ED%A0%80' : encodeURIComponent(character))).join(
    ''
  )
}
