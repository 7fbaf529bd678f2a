/*
 * Every channel from a real server to a real receiver: what somebody must decide arrives whole, with both decisions as links,
 * whatever the names are; who fails is seen, with the reason and without a secret.
 */
import t from 'tap'
import { createServer as createTlsServer } from 'node:tls'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type NotificationKind, notificationKinds } from '../../../lib/model/setting.js'
import { makeSigned } from '../../support/certificates.js'
import { startReceiver } from '../../support/receiver.js'
import { adminToken, startServer } from '../../support/server.js'
import { startSmtp } from '../../support/smtp-server.js'
import { svc } from '../../support/svc.js'
import { until } from '../../support/until.js'
import { zipOf } from '../../support/zip.js'
import { listen } from '../../support/on-loopback.js'

const publicUrl = 'https://deploy.example/tools'
const names = [
  'storefront-of-the-northern-warehouse-with-a-name-that-nobody-wanted-to-shorten-europe-production',
  '上海仓库网站（生产环境）',
  'a "quoted" & <b>bold</b> [link](https://evil.example) name'
]

/** The parts of a secret that must be nowhere but at the receiver. */
const secrets = ['tk_s3cret-of-ntfy', '123456:ABC-s3cret', 's3cret-of-the-mail', 's3cret-hook', 'SECs3cret']
const anySecret = /s3cret/

/** The address and the secret of a target of each kind. */
function addressesOf(receiver: string, smtpPort: number): Record<NotificationKind, { url: string; secret?: string }> {
  const hook = (kind: string): { url: string } => ({ url: `${receiver}/${kind}/s3cret-hook` })
  return {
    generic: { ...hook('generic'), secret: 'SECs3cret' },
    slack: hook('slack'),
    teams: hook('teams'),
    feishu: { ...hook('feishu'), secret: 'SECs3cret' },
    dingtalk: { ...hook('dingtalk'), secret: 'SECs3cret' },
    wecom: hook('wecom'),
    discord: hook('discord'),
    ntfy: { url: `${receiver}/ntfy-topic`, secret: 'tk_s3cret-of-ntfy' },
    telegram: { url: `${receiver}/?chat_id=-100`, secret: '123456:ABC-s3cret' },
    email: {
      url: `smtp://ada@localhost:${smtpPort}?from=svc@example.org&to=ops@example.org`,
      secret: 's3cret-of-the-mail'
    }
  }
}

/** Returns the text of a mail. */
function textOfMail(lines: readonly string[]): string {
  const blank = lines.indexOf('')
  const body = lines.slice(blank + 1).join('\n')
  return /base64/i.test(lines.slice(0, blank).join('\n')) ? Buffer.from(body, 'base64').toString('utf8') : body
}

async function startChannels(t: Parameters<typeof startServer>[0]) {
  const receiver = await startReceiver(t)
  const { authority, server } = makeSigned()
  const smtp = await startSmtp(t, { identity: server, tls: 'starttls', auth: 'PLAIN' })
  const stage = await startServer(t, { environment: { SVC_PUBLIC_URL: publicUrl }, base: '/tools' })
  const ca = join(stage.sites, 'ca.pem')
  writeFileSync(ca, authority.cert)
  await stage.client.put('/api/settings', { outgoing_ca: ca })
  const addresses = addressesOf(receiver.url, smtp.port)
  const add = async (kind: NotificationKind, given: object = {}): Promise<string> => {
    const fields = { name: kind, kind, events: ['deploy_waiting'], ...addresses[kind], ...given }
    const made = await stage.client.post('/api/notification-targets', fields)
    return (made.body as { target: { id: string } }).target.id
  }
  /** Pushes what waits for a confirmation. Returns the deployment and what ends the push. */
  const hold = async (name: string) => {
    const project = await stage.createProject(name, { deployPath: join(stage.sites, `site-${Math.random()}`) })
    const file = { filename: 'a.zip', bytes: await zipOf({ 'index.html': name }) }
    const pushed = stage.as(project.token).upload([
      ['projectId', project.id],
      ['confirmSeconds', '600'],
      ['message', `发布 ${name}`],
      ['file', file]
    ])
    const waits = async () => (await stage.client.get('/api/marks')).body.waiting as Array<{ deployId: string }>
    const at = (await waits()).length
    await until(async () => (await waits()).length > at || (await waits()).length === 1)
    const found = (await stage.client.get(`/api/logs?projectId=${project.id}`)).body as [{ id: string }]
    const { id } = found[0]
    const end = async (): Promise<void> => {
      await stage.client.post(`/api/deployments/${id}/confirm`, {})
      await pushed
    }
    return { project, id, end }
  }
  const env = { SVC_SERVER_URL: stage.url, SVC_TOKEN: adminToken }
  const cli = async (...words: string[]): Promise<string> => {
    const { stdout, stderr } = await svc(words, { cwd: stage.sites, env })
    return stdout + stderr
  }
  return { receiver, smtp, stage, add, hold, cli }
}

t.test('every channel gets the whole message with both decisions, for any name', async t => {
  const { receiver, smtp, stage, add, hold, cli } = await startChannels(t)
  for (const kind of notificationKinds) await add(kind)
  for (const [at, name] of names.entries()) {
    receiver.requests.length = 0
    const startedMs = performance.now()
    const { id, end } = await hold(name)
    await receiver.received(notificationKinds.length - 1)
    await until(() => smtp.mails.length === at + 1)
    t.comment(`"waits" to ${notificationKinds.length} messages: ${Math.round(performance.now() - startedMs)} ms`)
    const page = `${publicUrl}/deployments/${id}`
    const mail = smtp.mails[at]
    const texts = new Map<string, string>([['email', textOfMail(mail?.lines ?? [])]])
    for (const { path, text } of receiver.requests) {
      const kind = path === '/' ? 'ntfy' : path.startsWith('/bot') ? 'telegram' : (path.split('/')[1] as string)
      texts.set(kind, text)
    }
    t.same([...texts.keys()].sort(), [...notificationKinds].sort(), name)
    for (const [kind, text] of texts) {
      const plain = kind === 'email' ? text : JSON.stringify(JSON.parse(text))
      t.ok(plain.includes(page), `${kind} links to the deployment`)
      if (kind !== 'generic')
        for (const decision of ['confirm', 'revert'])
          t.ok(plain.includes(`${page}?decide=${decision}`), `${kind} ${decision}`)
      // Services with a markup get the name with escapes: its letters and characters are there.
      for (const word of name.match(/[\p{L}\p{N}]+/gu) ?? []) t.ok(plain.includes(word), `${kind}: ${word}`)
      t.notMatch(text, anySecret, kind)
    }
    await end()
  }
  const seen = JSON.stringify([
    (await stage.client.get('/api/notification-targets')).body,
    (await stage.client.get('/api/audit?limit=500')).body
  ])
  t.notMatch(seen, anySecret, 'no secret in the list or in the audit log')
  const listed = await cli('notify', 'list')
  t.notMatch(listed, anySecret)
  t.notMatch(listed, /failed|waiting:/)
})

t.test('who fails is named with the reason, in the API, in svc notify list and in the audit log', async t => {
  const { receiver, stage, add, hold, cli } = await startChannels(t)
  const strict = createTlsServer(socket => socket.destroy())
  const noTls = await listen(t, strict)
  const busy = await startReceiver(t)
  busy.behave({ status: 429, body: 'slow down', headers: { 'retry-after': '3600' } })
  const broken = await startReceiver(t)
  broken.behave(500)
  const silent = await startReceiver(t)
  silent.behave('hang')
  receiver.behave(401)
  await add('generic', { name: 'revoked' })
  await add('slack', { name: 'busy', url: `${busy.url}/s3cret-hook` })
  await add('discord', { name: 'broken', url: `${broken.url}/s3cret-hook` })
  await add('teams', { name: 'silent', url: `${silent.url}/s3cret-hook` })
  await add('generic', { name: 'tls', url: `https://127.0.0.1:${noTls}/s3cret-hook` })
  const { id, end } = await hold('shop')
  t.match(id, /^dep_/)

  const reasons: Record<string, RegExp> = {
    revoked: /answered 401/,
    busy: /answered 429/,
    broken: /answered 500/,
    silent: /no answer within 5 s/,
    tls: /TLS|certificate|closed|reset|connection/i
  }
  interface Shown {
    name: string
    queue: { waiting: number; problem: string | null }
    failure?: { at: string; reason: string }
  }
  const shown = async (): Promise<Shown[]> =>
    (await stage.client.get('/api/notification-targets')).body.items as Shown[]
  const whyOf = ({ queue, failure }: Shown): string | null => failure?.reason ?? queue.problem
  await until(async () => (await shown()).filter(each => each.name in reasons).every(each => whyOf(each) !== null))
  for (const each of await shown()) {
    if (!(each.name in reasons)) continue
    t.match(whyOf(each), reasons[each.name] as RegExp, each.name)
    t.equal(
      each.queue.waiting,
      each.name === 'revoked' ? 0 : 1,
      `${each.name}: only what is refused for good is dropped`
    )
  }
  const listed = await cli('notify', 'list')
  for (const [name, reason] of Object.entries(reasons)) {
    const json = JSON.parse(await cli('notify', 'list', '--json')) as Shown[]
    t.match(whyOf(json.find(each => each.name === name) as Shown), reason, name)
    t.match(listed, name)
  }
  t.match(listed, /failed: answered 401/)
  t.match(listed, /1 waiting: answered 429/)
  const { items } = (await stage.client.get('/api/audit?action=webhook.send')).body as { items: object[] }
  t.match(items, [{ detail: 'revoked: deploy_waiting (confirmation): answered 401, 1 attempt', ok: false }])
  for (const name of ['revoked', 'broken', 'tls']) {
    const said = await cli('notify', 'test', name)
    t.match(said, /not delivered|fail|answered|error/i, name)
    t.notMatch(said, anySecret, name)
  }
  t.notMatch(listed + JSON.stringify([await shown(), items]), anySecret)

  const failureOf = async (name: string) => (await shown()).find(each => each.name === name)?.failure
  t.match(await failureOf('revoked'), { reason: /answered 401/ })

  // The secret of the receiver has changed: a new one is used at once, and the failure is forgotten.
  const revoked = (
    (await stage.client.get('/api/notification-targets')).body.items as Array<{ id: string; name: string }>
  ).find(({ name }) => name === 'revoked')
  receiver.behave(200)
  receiver.requests.length = 0
  const changed = await stage.client.put(`/api/notification-targets/${revoked?.id}`, { secret: 'another-s3cret' })
  t.equal(changed.status, 200)
  t.match(await cli('notify', 'list'), /revoked.*enabled/)
  t.equal(await failureOf('revoked'), undefined)
  const before = receiver.requests.length
  t.match(await cli('notify', 'test', 'revoked'), /"revoked" answered with status 200/)
  t.equal(receiver.requests.length, before + 1)
  await end()
  for (const secret of secrets)
    t.notMatch(JSON.stringify((await stage.client.get('/api/audit?limit=500')).body), secret)
})
