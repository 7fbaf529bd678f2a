import t from 'tap'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeCertificate, makeSigned } from '../../support/certificates.js'
import { createClient } from '../../support/client.js'
import { startReceiver } from '../../support/receiver.js'
import { startServe, startServeProcess } from '../../support/serve-process.js'
import { svc } from '../../support/svc.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'
import { until } from '../../support/until.js'
import { serverSays } from '../../support/sentences/server.js'

t.test('serve says where it listens, the admin token, and the data directory', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const stdout = server.said()
  t.match(stdout, /http:\/\/127\.0\.0\.1:\d+\/\n/)
  t.match(stdout, `Admin token: ${server.adminToken}\n`)
  t.match(stdout, `Data directory: ${server.home}\n`)
  t.equal((await fetch(`${server.url}/api/health`)).status, 200)
  t.equal(await server.stop(), 0)
})

t.test('serve takes the token of ADMIN_TOKEN, and warns of a weak one', async t => {
  const server = await startServe(t, t.testdir({ '.env.local': 'ADMIN_TOKEN=weak-token\n' }))
  t.match(server.said(), new RegExp(`${serverSays.tokenComesFrom('.*/\\.env\\.local')}\n`))
  t.notMatch(server.said(), 'weak-token')
  t.equal(server.adminToken, 'weak-token')
  await server.warns(/warning: .*weak/)
})

t.test('without a terminal, only the start that generates the admin token prints it', async t => {
  const cwd = t.testdir({})
  const first = await startServe(t, cwd)
  t.match(first.said(), `Admin token: ${first.adminToken}\n`)
  await first.stop()
  const second = await startServe(t, cwd)
  t.match(second.said(), `${serverSays.tokenComesFrom(join(second.home, 'config.json'))}\n`)
  t.notMatch(second.said() + second.saidOnStderr(), first.adminToken)
  t.equal(second.adminToken, first.adminToken)
})

t.test('on a terminal, every start prints the admin token', { skip: noTerminal }, async t => {
  const cwd = t.testdir({})
  const env = { ADMIN_TOKEN: 'a-token-of-the-environment-1' }
  const { text } = await svcOnTerminal(['serve', '--port', '0'], [{ see: 'Data directory: ', type: '\x03' }], {
    cwd,
    env
  })
  t.match(text, 'Admin token: a-token-of-the-environment-1')
})

t.test('serve warns about an address that other machines can reach', async t => {
  const server = await startServe(t, t.testdir({}), ['--host', '0.0.0.0'])
  await server.warns(new RegExp(`warning: ${serverSays.reachable('0.0.0.0')}`))
})

t.test('serve refuses what an unset variable makes of an option, and options of a hub for none', async t => {
  const cwd = t.testdir({})
  const run = (...words: string[]) =>
    svc(['serve', '--port', '0', ...words], { cwd, env: { SVC_HOME: join(cwd, 'home') } })
  // Node would listen on every address of the machine.
  t.match(await run('--host', ''), { code: 2, stderr: /--host is empty/ })
  t.match(await run('--ready-file', ' '), { code: 2, stderr: /--ready-file is empty/ })
  t.match(await run('--hub-name', 'a'), { code: 2, stderr: /--hub-name needs --store/ })
  t.match(await run('--allow-http'), { code: 2, stderr: /--allow-http needs --store/ })
  t.match(await svc(['serve'], { cwd, env: { SVC_HOME: '/' } }), {
    code: 1,
    stderr: /it is the root of the file system/
  })
})

t.test('serve refuses a port, or a data directory, that is in use', async t => {
  const cwd = t.testdir({})
  const server = await startServeProcess(t, cwd)
  const port = new URL(server.url).port
  t.match(await svc(['serve', '--port', port], { cwd, env: { SVC_HOME: join(cwd, 'other-home') } }), {
    code: 1,
    stdout: '',
    stderr: /^error: .*address already in use/
  })
  t.match(await svc(['serve', '--port', '0'], { cwd, env: { SVC_HOME: server.home } }), {
    code: 1,
    stdout: '',
    stderr: /^error: /
  })
})

t.test('a reset token applies to the running server from the next request', async t => {
  const cwd = t.testdir({})
  const server = await startServe(t, cwd)
  const { stdout } = await svc(['admin', 'reset-password', '--random'], { cwd, env: { SVC_HOME: server.home } })
  const status = async (token: string) =>
    (await fetch(`${server.url}/api/projects`, { headers: { authorization: `Bearer ${token}` } })).status
  t.equal(await status(stdout.trim()), 200)
  t.equal(await status(server.adminToken), 401)
})

t.test('one signal lets running deployments finish, a second stops them', async t => {
  for (const signals of [1, 2]) {
    const cwd = t.testdir({})
    const server = await startServeProcess(t, cwd)
    const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
    const script = signals === 1 ? 'until [ -e ../go ]; do sleep 0.05; done' : 'sleep 60'
    const { finished } = await server.upload(project, { 'a.txt': 'one' }, { postDeploy: `echo begun; ${script}` })
    const stopped = server.stop('SIGINT')
    await server.warns(/Stopping/)
    if (signals === 2) void server.stop('SIGINT')
    else writeFileSync(join(cwd, 'go'), '')
    t.equal(await stopped, 0)
    t.match((await finished.catch(() => [])).at(-1) ?? { status: 'failed' }, {
      status: signals === 1 ? 'success' : 'failed'
    })
  }
})

t.test('serve --runtime runs svc with the bun of PATH, or explains how to install it', async t => {
  const cwd = t.testdir({})
  const missing = await svc(['serve', '--runtime', 'bun'], { cwd, env: { PATH: cwd } })
  t.match(missing, { code: 1, stderr: /Cannot start Bun: it is not on PATH/ })

  mkdirSync(join(cwd, 'bin'))
  writeFileSync(join(cwd, 'bin/bun'), '#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
  chmodSync(join(cwd, 'bin/bun'), 0o755)
  const env = { PATH: `${join(cwd, 'bin')}:${process.env['PATH']}` }
  const found = await svc(['serve', '--runtime', 'bun', '--port', '8080', '--no-terminal'], { cwd, env })
  t.equal(found.code, 7)
  t.match(found.stdout, /bin\/svc\.js\nserve\n--port=8080\n--no-terminal\n$/)

  // What it runs in already needs no other: there is no node on this PATH.
  const server = await startServeProcess(t, cwd, ['--runtime', 'node'], { PATH: join(cwd, 'bin') })
  t.match(await server.api('GET', '/api/health/detail'), { runtime: { name: 'node', version: process.version } })
  t.equal(await server.stop(), 0)
})

t.test('serve --tls-cert --tls-key serves HTTPS and reloads a renewed certificate', async t => {
  const { authority, server: identity } = makeSigned()
  const cwd = t.testdir({
    'cert.pem': identity.cert,
    'ca.pem': authority.cert,
    site: { dist: { 'index.html': 'hello' } }
  })
  writeFileSync(join(cwd, 'key.pem'), identity.key, { mode: 0o600 })
  const server = await startServeProcess(t, cwd, [
    '--host',
    '0.0.0.0',
    '--tls-cert',
    'cert.pem',
    '--tls-key',
    'key.pem'
  ])
  t.match(
    server.said(),
    /^svc listens on https:\/\/0\.0\.0\.0:\d+\/\nCertificate: localhost, 127\.0\.0\.1, until \d{4}-\d\d-\d\d\n/
  )
  const url = `https://localhost:${new URL(server.url).port}`
  const client = createClient(() => url, server.adminToken, { ca: authority.cert })
  const { body } = await client.post('/api/projects', { name: 'Storefront', deployPath: join(cwd, 'www') })
  const { id, token } = body.project

  const push = (env: Record<string, string>) =>
    svc(['push', '--server', url, '--project', id, '--out', 'dist', '--post', 'echo "it is there"'], {
      cwd: join(cwd, 'site'),
      env: { SVC_DEPLOY_TOKEN: token, ...env }
    })
  const unknown = await push({})
  t.match(unknown, { code: 1, stderr: /signed by an unknown authority\. Use NODE_EXTRA_CA_CERTS=<file> to trust it/ })
  const pushed = await push({ NODE_EXTRA_CA_CERTS: join(cwd, 'ca.pem') })
  t.match(pushed, { code: 0, stdout: /it is there/ })
  t.equal(readFileSync(join(cwd, 'www/index.html'), 'utf8'), 'hello')
  const plain = await svc(['status', id, '--server', url.replace('https', 'http'), '--token', server.adminToken], {
    cwd
  })
  t.match(plain, { code: 1, stderr: serverSays.expectsTls })

  t.same((await client.get('/api/health/detail')).body.certificates, [])
  const next = makeSigned().authority
  const soon = makeCertificate({ issuer: next, to: new Date(Date.now() + 3 * 86_400_000) })
  writeFileSync(join(cwd, 'cert.pem'), soon.cert)
  writeFileSync(join(cwd, 'key.pem'), soon.key)
  const later = createClient(() => url, server.adminToken, { ca: next.cert })
  await until(() =>
    later.get('/api/health').then(
      ({ status }) => status === 200,
      () => false
    )
  )
  t.match(server.said(), `${serverSays.newCertificate}localhost, 127.0.0.1, until `)
  t.match((await later.get('/api/health/detail')).body.certificates, [
    { name: `The certificate "${join(cwd, 'cert.pem')}"`, expiresAt: /^\d{4}-/, cure: /^Clients reject it then/ }
  ])
  writeFileSync(join(cwd, 'ca.pem'), next.cert)
  const env = { NODE_EXTRA_CA_CERTS: join(cwd, 'ca.pem') }
  const examined = await svc(['doctor', '--server', url, '--token', server.adminToken], { cwd, env })
  t.match(examined.stdout, /Certificates: The certificate ".*cert\.pem" expires on \d{4}-/)
  writeFileSync(join(cwd, 'cert.pem'), 'broken')
  const broken = server.warns(
    new RegExp(
      `warning: ${serverSays.previousCertificate}Cannot use the certificate ".*cert\\.pem": ${serverSays.noCertificate}`
    )
  )
  let isTold = false
  void broken.then(() => (isTold = true))
  while (!isTold) {
    t.equal((await later.get('/api/health')).status, 200)
    await sleep(200)
  }
  t.equal(await server.stop(), 0)
  t.notMatch(server.saidOnStderr(), /not encrypted/)
})

t.test('serve refuses a certificate that cannot be used before it does anything', async t => {
  const expired = makeCertificate({ from: new Date('2020-01-01'), to: new Date('2020-04-01') })
  const other = makeCertificate()
  const cwd = t.testdir({ 'expired.pem': expired.cert, 'expired.key': expired.key, 'other.key': other.key })
  for (const [cert, key, sentence] of [
    [
      'expired.pem',
      'expired.key',
      /Cannot use the certificate ".*expired\.pem": it expired on 2020-04-01 UTC\. Renew it/
    ],
    ['expired.pem', 'other.key', /Cannot use the key ".*other\.key": it is not the key of the certificate in/],
    ['none.pem', 'other.key', /Cannot use the certificate ".*none\.pem": no such file or directory/]
  ] as const) {
    const ended = await svc(['serve', '--port', '0', '--tls-cert', cert, '--tls-key', key], { cwd })
    t.match(ended, { code: 1, stdout: '', stderr: sentence })
  }
  t.same(readdirSync(cwd).sort(), ['expired.key', 'expired.pem', 'other.key'], 'there is no data directory')
})

t.test('serve --socket listens on a Unix socket instead of a port', async t => {
  const cwd = t.testdir({})
  const directory = mkdtempSync(join(tmpdir(), 'svc-'))
  t.teardown(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'svc.sock')
  const server = await startServeProcess(t, cwd, ['--socket', path, '--base', 'tools/svc'])
  t.match(server.said(), `svc listens on unix:${path}\n${serverSays.allPathsBelow('/tools/svc')}\n`)
  t.equal(statSync(path).mode & 0o777, 0o660)
  const ask = (from: string) =>
    createClient(() => 'http://localhost/tools/svc', server.adminToken, { socketPath: path }).post(
      '/api/auth/login',
      { token: 'wrong-one' },
      { 'x-forwarded-for': from }
    )
  t.equal((await ask('203.0.113.9')).status, 401)
  const client = createClient(() => 'http://localhost/tools/svc', server.adminToken, { socketPath: path })
  t.match((await client.get('/api/audit?limit=1')).body.items, [{ ip: '203.0.113.9' }])
  t.equal(
    (await createClient(() => 'http://localhost', null, { socketPath: path }).get('/api/health')).status,
    404,
    'nothing is outside the prefix'
  )
  t.equal(
    (await createClient(() => 'http://localhost/tools/svc', null, { socketPath: path }).post('/api/auth/reset', {}))
      .status,
    403,
    'it is not the local operator who asks'
  )
  const second = await svc(['serve', '--socket', path], { cwd, env: { SVC_HOME: join(cwd, 'other-home') } })
  t.match(second, {
    code: 1,
    stdout: '',
    stderr: /^error: Cannot listen on the socket ".*svc\.sock": address already in use/
  })
  t.equal(await server.stop(), 0)
  t.same(readdirSync(directory), [])
})

t.test('SVC_PUBLIC_URL is printed at the start, or refused before anything else', async t => {
  const cwd = t.testdir({})
  const refused = await svc(['serve', '--port', '0'], { cwd, env: { SVC_PUBLIC_URL: 'deploy.example.org' } })
  t.match(refused, {
    code: 1,
    stdout: '',
    stderr: /SVC_PUBLIC_URL "deploy\.example\.org" is not valid: use an address like/
  })
  t.same(readdirSync(cwd), [])
  const server = await startServe(t, cwd, [], { SVC_PUBLIC_URL: 'https://deploy.example.org/' })
  t.match(server.said(), /^Public address: https:\/\/deploy\.example\.org\/$/m)

  const receiver = await startReceiver(t)
  await server.api('PUT', '/api/settings', { webhook_url: receiver.url })
  const project = await server.createProject({ name: 'shop', deployPath: join(cwd, 'www') })
  writeFileSync(join(cwd, 'index.html'), 'hello')
  const push = (...words: string[]) =>
    svc(
      ['push', '--server', server.url, '--project', project.id, '--out', '.', '--ignore', 'server-home/**', ...words],
      {
        cwd,
        env: { SVC_DEPLOY_TOKEN: project.token }
      }
    )
  const pushed = await push()
  const page = /^https:\/\/deploy\.example\.org\/deployments\/dep_\w+$/m.exec(pushed.stderr)?.[0]
  t.ok(page, pushed.stderr)
  const { url, deployId } = JSON.parse((await push('--json')).stdout)
  t.equal(url, `https://deploy.example.org/deployments/${deployId}`)
  const notified = (await receiver.received(2)).map(({ text }) => JSON.parse(text).url)
  t.same(notified, [page, url])
})
