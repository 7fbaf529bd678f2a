import { gunzipSync } from 'node:zlib'
import t from 'tap'
import type { ClientReply } from '../support/client.js'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'

async function deploy(stage: Stage, project: { id: string; token: string }): Promise<void> {
  const reply = await stage.as(project.token).upload([
    ['projectId', project.id],
    ['file', { filename: 'a.zip', bytes: await zipOf({ 'a.txt': 'a' }) }]
  ])
  if (!reply.text.includes('success')) throw new Error(reply.text)
}

const tagOf = ({ headers }: ClientReply): string => headers.etag as string

t.test('a repeated request gets 304 until the answer changes', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop')
  await deploy(stage, project)
  const paths = [
    '/api/projects',
    `/api/projects/${project.id}`,
    '/api/categories',
    '/api/tags',
    '/api/logs?output=none',
    '/api/audit'
  ]
  const ask = async (path: string, tag: string) => stage.client.get(path, { 'if-none-match': tag })

  /** The routes whose answers this changes. */
  async function changes(work: () => Promise<unknown>): Promise<string[]> {
    const before = await Promise.all(paths.map(path => stage.client.get(path)))
    for (const [i, path] of paths.entries()) {
      t.match(tagOf(before[i] as ClientReply), /^W\/"[\w-]+-[\d.]+"$/, path)
      const known = await ask(path, tagOf(before[i] as ClientReply))
      t.match(
        known,
        { status: 304, text: '', headers: { etag: tagOf(before[i] as ClientReply), 'cache-control': 'no-store' } },
        path
      )
    }
    await work()
    const after = await Promise.all(paths.map((path, i) => ask(path, tagOf(before[i] as ClientReply))))
    const whole = await Promise.all(paths.map(path => stage.client.get(path)))
    whole.forEach((reply, i) => {
      if (after[i]?.status === 304) t.same(reply.body, before[i]?.body, `${paths[i]}: a 304 is true`)
    })
    return paths.filter((_, i) => after[i]?.status === 200)
  }

  const one = `/api/projects/${project.id}`
  t.same(await changes(async () => {}), [])
  t.same(await changes(() => deploy(stage, project)), ['/api/projects', one, '/api/logs?output=none', '/api/audit'])
  t.same(await changes(() => stage.client.put(one, { description: 'b' })), [
    '/api/projects',
    one,
    '/api/categories',
    '/api/tags',
    '/api/audit'
  ])
  let tag = ''
  t.same(
    await changes(async () => {
      tag = (await stage.client.post('/api/tags', { name: 'a' })).body.tag.id
    }),
    ['/api/projects', one, '/api/tags', '/api/audit']
  )
  await stage.client.put(one, { tagIds: [tag] })
  t.ok(
    (await changes(() => stage.client.delete(`/api/tags/${tag}`))).includes(one),
    'also what SQLite changes by itself'
  )
  t.same(
    await changes(() => stage.client.put('/api/settings', { keep_archives: '7' })),
    ['/api/logs?output=none', '/api/audit'],
    'a setting decides the links to commits'
  )

  const known = tagOf(await stage.client.get('/api/projects'))
  await stage.restart()
  t.equal((await ask('/api/projects', known)).status, 200, 'ETags differ after a restart')
})

t.test('answers that depend on more than the store have no ETag', async t => {
  const stage = await startServer(t)
  for (const path of [
    '/api/logs',
    '/api/logs?output=end',
    '/api/overview',
    '/api/health',
    '/api/storage',
    '/api/system/resources'
  ]) {
    const reply = await stage.client.get(path, { 'if-none-match': '*' })
    t.match([reply.status, reply.headers.etag], [200, undefined], path)
  }
})

t.test('ETags differ by caller', async t => {
  const stage = await startServer(t)
  const [shop, blog] = [await stage.createProject('shop'), await stage.createProject('blog')]
  await deploy(stage, shop)
  const tag = tagOf(await stage.as(shop.token).get('/api/logs?output=none'))
  t.equal((await stage.as(shop.token).get('/api/logs?output=none', { 'if-none-match': tag })).status, 304)
  const other = await stage.as(blog.token).get('/api/logs?output=none', { 'if-none-match': tag })
  t.match([other.status, other.body], [200, []])
  t.equal((await stage.as('wrong').get('/api/logs?output=none', { 'if-none-match': tag })).status, 401)
  t.equal((await stage.client.get('/api/logs?output=none&limit=x', { 'if-none-match': 'W/"other"' })).status, 400)
})

t.test('lists can omit output, and are compressed if the client accepts gzip', async t => {
  const stage = await startServer(t)
  const project = await stage.createProject('shop', { postDeployScript: 'echo done' })
  await deploy(stage, project)
  const [short] = (await stage.client.get('/api/logs?output=none')).body
  const [long] = (await stage.client.get('/api/logs')).body
  t.match(long.output, /done/)
  t.same(
    Object.keys(short).sort(),
    Object.keys(long)
      .filter(name => !name.startsWith('output'))
      .sort()
  )
  t.match(await stage.client.get('/api/logs?output=some'), { status: 400, body: { field: 'output' } })

  await stage.client.put(`/api/projects/${project.id}`, { description: 'long '.repeat(1000) })
  const plain = await stage.client.get('/api/projects')
  t.match(plain.headers, { vary: 'accept-encoding', 'content-encoding': undefined })
  const reply = await stage.client.open('GET', '/api/projects', { headers: { 'accept-encoding': 'br, gzip' } })
  const pieces: Buffer[] = []
  for await (const piece of reply) pieces.push(piece as Buffer)
  const bytes = Buffer.concat(pieces)
  t.match(reply.headers, {
    'content-encoding': 'gzip',
    'content-length': String(bytes.length),
    vary: 'accept-encoding',
    etag: plain.headers.etag
  })
  t.same(JSON.parse(gunzipSync(bytes).toString()), plain.body)
  const refused = await stage.client.get('/api/projects', { 'accept-encoding': 'gzip;q=0, identity' })
  t.same(refused.body, plain.body)
  t.equal(
    (await stage.client.get('/api/health', { 'accept-encoding': 'gzip' })).headers['content-encoding'],
    undefined,
    'small ones stay'
  )
  const head = await stage.client.send('HEAD', '/api/projects', { headers: { 'accept-encoding': 'gzip' } })
  t.match(head, { status: 200, text: '' })
})
