import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { readPublicKey } from '../../lib/core/proof/keys.js'
import { startServer } from '../support/server.js'
import { aKey, signedBy, statementOf } from '../support/signed-releases.js'
import { makeZip } from '../support/make-zip.js'
import { type RealNode, startNodes } from '../support/real-nodes.js'
import { zipOf } from '../support/zips.js'
import { startChromium } from './chromium.js'
import { cardOf, desktop, isWithin, onPhone, openDuring, photographer, saveCard, until } from './stage.js'
import { survey, violations } from './survey.js'

/* Who signs releases: the keys, the policy of a project, and what the page of a deployment says. */

const { browser, skip } = await startChromium(t)
const photograph = photographer('signatures')
t.test('a key is trusted, a policy asks for it, and a deployment names it', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront')
  const ana = aKey('ana')
  const { page } = await openDuring(t, browser, stage.url, 'access', { viewport: desktop })
  const keys = page.locator('svc-signing-keys')
  await keys.getByText('No key is trusted yet.').waitFor()
  await keys.getByRole('button', { name: 'Trust key' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Public key').fill('ssh-ed25519 nonsense')
  await dialog.getByRole('button', { name: 'Trust key' }).click()
  await dialog.locator('.error-line').first().waitFor()
  await dialog.getByLabel('Public key').fill(ana.row.public)
  await dialog.getByLabel('Name (optional)').fill('ana@laptop')
  t.same([...(await survey(page)), ...(await violations(page))], [])
  await photograph(page, 'trust-desktop')
  await dialog.getByRole('button', { name: 'Trust key' }).click()
  await keys.getByText('ana@laptop', { exact: true }).waitFor()
  await photograph(page, 'keys-desktop', { isWhole: true })

  await page.goto(`${stage.url}/projects/${shop.id}/settings`)
  const safety = cardOf(page, 'Safety')
  await safety.getByText('It is refused.', { exact: true }).click()
  await safety.getByText('A push without it is refused.').click()
  await saveCard(page, 'Safety')
  t.match((await stage.client.get(`/api/projects/${shop.id}`)).body.policy.signatures, {
    require: 'refuse',
    sbom: 'require'
  })
  await photograph(page, 'policy-desktop', { isWhole: true })

  await page.goto(`${stage.url}/projects/${shop.id}`)
  await page.getByText('A release is refused unless it is signed. Keys that must have signed: 1.').waitFor()
  await photograph(page, 'deploy-desktop')

  await stage.client.put(`/api/projects/${shop.id}`, { policy: { signatures: { require: 'refuse' } } })
  const files = { 'index.html': '<h1>Shop</h1>' }
  const { statement, signatures } = signedBy(statementOf(shop.id, files), ana)
  const answer = await stage
    .as(shop.token)
    .upload([
      ['projectId', shop.id],
      ['statement', statement],
      ...signatures.map(text => ['signature', text] as [string, string]),
      ['file', { filename: 'a.zip', bytes: makeZip([{ name: 'index.html', data: '<h1>Shop</h1>', mode: 0o100644 }]) }]
    ])
  t.equal(answer.status, 200)
  t.match((await stage.client.get(`/api/logs?projectId=${shop.id}`)).body, [{ status: 'success' }])
  const [{ id }] = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as [{ id: string }]
  for (const [name, options] of [
    ['desktop', { viewport: desktop }],
    ['phone-dark-zh', { ...onPhone, colorScheme: 'dark', locale: 'zh-CN' }]
  ] as const) {
    const { page } = await openDuring(t, browser, stage.url, `deployments/${id}`, options)
    await page.getByText('ana@laptop', { exact: true }).waitFor()
    t.same([...(await survey(page)), ...(await violations(page))], [], name)
    t.ok(await isWithin(page), name)
    await photograph(page, `deployment-${name}`, { isWhole: true })
    await page.goto(`${stage.url}/access`)
    await page.getByText('ana@laptop', { exact: true }).waitFor()
    t.same([...(await survey(page)), ...(await violations(page))], [], name)
    t.ok(await isWithin(page), name)
    await photograph(page, `keys-${name}`, { isWhole: true })
  }

  await page.goto(`${stage.url}/access`)
  await keys.getByRole('button', { name: 'Revoke ana@laptop' }).click()
  await dialog.getByRole('button', { name: 'Revoke', exact: true }).click()
  await page.getByText('The key was revoked. It has signed 1 deployment.').waitFor()
  await keys.getByText(/revoked/).waitFor()
})

t.test('a dropped folder is signed by the key of the browser', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront', { policy: { signatures: { require: 'refuse' } } } as never)
  const folder = join(stage.sites, '../dropped')
  mkdirSync(join(folder, 'site'), { recursive: true })
  writeFileSync(join(folder, 'site/index.html'), '<h1>Shop</h1>')
  writeFileSync(join(folder, 'site/app.js'), 'shop()')
  const { page } = await openDuring(t, browser, stage.url, `projects/${shop.id}`, { viewport: desktop })
  const drop = () => page.locator('svc-upload input[webkitdirectory]').setInputFiles(join(folder, 'site'))
  await drop()
  const dialog = page.getByRole('dialog')
  const deploy = dialog.getByRole('button', { name: 'Deploy', exact: true })
  await dialog.getByText('This release must be signed.').waitFor()
  t.equal(await deploy.isDisabled(), true, 'nothing signs it yet')
  await dialog.getByRole('button', { name: 'Make a key' }).click()
  await dialog.getByText('Let the server trust this key').click()
  const publicText = (await dialog.locator('svc-sign pre').textContent()) ?? ''
  t.match(publicText, /^-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA/)
  t.same([...(await survey(page)), ...(await violations(page))], [])
  await photograph(page, 'sign-desktop', { isWhole: true })
  const { fingerprint } = readPublicKey(publicText)
  await dialog.getByText(fingerprint, { exact: true }).waitFor()

  await deploy.click()
  await page
    .getByText(/is not a trusted key/)
    .first()
    .waitFor()
  t.notOk(existsSync(join(stage.sites, 'storefront/index.html')), 'a key that nobody trusts signs nothing')
  t.equal((await stage.client.post('/api/signing-keys', { public: publicText, name: 'browser' })).status, 200)
  await drop()
  await deploy.click()
  await page.waitForURL(/deployments\/dep_/)
  await until(async () => (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body[0]?.status === 'success')
  const [row] = (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body as [{ id: string; signedBy: unknown }]
  t.match(row.signedBy, [{ name: 'browser', fingerprint }])
  t.ok(existsSync(join(stage.sites, 'storefront/index.html')))
  const script = `new Promise(resolve => {
    const opening = indexedDB.open('svc-signing')
    opening.onsuccess = () => {
      const asked = opening.result.transaction('keys').objectStore('keys').get('release')
      asked.onsuccess = () => {
        crypto.subtle.exportKey('pkcs8', asked.result.privateKey).then(() => resolve('readable'), ({ name }) => resolve(name))
      }
    }
  })`
  t.equal(await page.evaluate(script), 'InvalidAccessError', 'no script of the page reads the private key')

  for (const [name, options] of [
    ['phone-dark-zh', { ...onPhone, colorScheme: 'dark', locale: 'zh-CN' }],
    ['desktop-dark', { viewport: desktop, colorScheme: 'dark' }]
  ] as const) {
    const { page } = await openDuring(t, browser, stage.url, `projects/${shop.id}?deploy`, options)
    const input = page.locator('svc-upload input[webkitdirectory]')
    if ((await input.count()) === 0)
      await page
        .getByRole('button', { name: /^(Deploy|部署)/ })
        .first()
        .click()
    await input.setInputFiles(join(folder, 'site'))
    await page.locator('svc-sign .own button').first().click()
    await page.locator('svc-sign summary').click()
    t.same([...(await survey(page)), ...(await violations(page))], [], name)
    t.ok(await isWithin(page), name)
    await photograph(page, `sign-${name}`, { isWhole: true })
  }

  const next = await stage.createProject('next', { policy: { signatures: { require: 'refuse' } } } as never)
  const { page: old } = await openDuring(t, browser, stage.url, `projects/${next.id}`, { viewport: desktop })
  await old.evaluate(`crypto.subtle.generateKey = () => Promise.reject(new DOMException('no', 'NotSupportedError'))`)
  await old.locator('svc-upload input[webkitdirectory]').setInputFiles(join(folder, 'site'))
  await old.getByText('This browser has no Ed25519 keys. A newer one has. Push it from a terminal instead:').waitFor()
  t.equal(await old.getByRole('button', { name: 'Deploy', exact: true }).isDisabled(), true)
})

/** Returns a zip as a browser chooses it. */
async function zipFile(files: Record<string, string>) {
  return { name: 'site.zip', mimeType: 'application/zip', buffer: await zipOf(files) }
}

const zipInput = 'svc-upload input[type=file]:not([webkitdirectory])'
const refusing = { policy: { signatures: { require: 'refuse' } } } as never

t.test('a dropped zip is signed, also for a project on nodes', { skip }, async t => {
  const stage = await startServer(t)
  const [node] = (await startNodes(t, stage, [{ name: 'plant-a' }])) as [RealNode]
  const shop = await stage.createProject('storefront', refusing)
  const plant = await stage.createProject('plant', refusing)
  const add = [{ node: node.id, deployPath: join(node.sites, 'plant') }]
  t.equal((await stage.client.patch(`/api/projects/${plant.id}/placements`, { add })).status, 200)
  const files = { 'index.html': '<h1>Shop</h1>', 'run.sh': 'echo run', 'ä/日本.txt': 'text' }
  const { page } = await openDuring(t, browser, stage.url, `projects/${shop.id}`, { viewport: desktop })
  const dialog = page.getByRole('dialog')
  const deploy = dialog.getByRole('button', { name: 'Deploy', exact: true })
  await page.locator(zipInput).setInputFiles(await zipFile(files))
  await dialog.getByRole('button', { name: 'Make a key' }).click()
  await dialog.getByText('Let the server trust this key').click()
  const publicText = (await dialog.locator('svc-sign pre').textContent()) ?? ''
  t.equal((await stage.client.post('/api/signing-keys', { public: publicText, name: 'browser' })).status, 200)
  for (const [project, target] of [
    [shop, join(stage.sites, 'storefront')],
    [plant, join(node.sites, 'plant')]
  ] as const) {
    await page.goto(`${stage.url}/projects/${project.id}`)
    await page.locator(zipInput).setInputFiles(await zipFile(files))
    await dialog.getByText('Sign it with the key of this browser').waitFor()
    await dialog.getByLabel('Message').fill('Signed here')
    await deploy.click()
    await page.waitForURL(/deployments\/dep_/)
    const row = async () => (await stage.client.get(`/api/logs?projectId=${project.id}`)).body[0]
    await until(async () => ['success', 'failed'].includes((await row())?.status))
    t.match(await row(), { status: 'success', message: 'Signed here', signedBy: [{ name: 'browser' }] }, project.name)
    t.equal(statSync(join(target, 'run.sh')).mode & 0o777, 0o755, project.name)
    t.equal(readFileSync(join(target, 'ä/日本.txt'), 'utf8'), 'text', project.name)
  }
})

t.test('without a plan, the files are still read, because they are signed', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront', refusing)
  const plain = await stage.createProject('plain')
  const { page, context } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
  await context.addInitScript(`
    const own = ReadableStream.prototype.pipeThrough
    const go = new Promise(resolve => (window.readOn = resolve))
    ReadableStream.prototype.pipeThrough = function (stream, ...others) {
      if (!(stream instanceof DecompressionStream)) return own.call(this, stream, ...others)
      const waiting = new TransformStream({ start: () => go })
      return own.call(own.call(this, waiting), stream, ...others)
    }`)
  const dialog = page.getByRole('dialog')
  const deploy = dialog.getByRole('button', { name: 'Deploy', exact: true })
  const skipPlan = dialog.getByRole('button', { name: 'Continue without a plan' })
  const choose = async (id: string): Promise<void> => {
    await page.goto(`${stage.url}/projects/${id}`)
    await page.locator(zipInput).setInputFiles(await zipFile({ 'index.html': 'one '.repeat(1000) }))
    await skipPlan.click()
  }
  await choose(plain.id)
  await skipPlan.waitFor({ state: 'detached' })
  t.equal(await deploy.isDisabled(), false, 'nothing is signed')
  await choose(shop.id)
  await dialog.getByRole('button', { name: 'Make a key' }).click()
  await dialog.getByText('Let the server trust this key').click()
  const publicText = (await dialog.locator('svc-sign pre').textContent()) ?? ''
  t.equal((await stage.client.post('/api/signing-keys', { public: publicText, name: 'browser' })).status, 200)
  t.equal(await skipPlan.count(), 0)
  t.equal(await deploy.isDisabled(), true, 'the tree is not known yet')
  await page.evaluate('window.readOn()')
  await deploy.click()
  await page.waitForURL(/deployments\/dep_/)
  await until(async () => (await stage.client.get(`/api/logs?projectId=${shop.id}`)).body[0]?.status === 'success')
})

t.test('a browser that cannot sign says what to do instead', { skip }, async t => {
  const stage = await startServer(t)
  const shop = await stage.createProject('storefront', refusing)
  const browsers = {
    'This browser has no Ed25519 keys. A newer one has. Push it from a terminal instead:': `
      const own = SubtleCrypto.prototype.generateKey
      SubtleCrypto.prototype.generateKey = function (algorithm, ...others) {
        if ((algorithm.name ?? algorithm) === 'Ed25519') throw new DOMException('no', 'NotSupportedError')
        return own.call(this, algorithm, ...others)
      }`,
    'A browser signs only on pages with HTTPS. Push it from a terminal instead:': `
      Object.defineProperty(Crypto.prototype, 'subtle', { get: () => undefined })`
  }
  for (const [words, script] of Object.entries(browsers)) {
    const { page, context } = await openDuring(t, browser, stage.url, '', { viewport: desktop })
    await context.addInitScript(script)
    await page.goto(`${stage.url}/projects/${shop.id}`)
    await page.locator(zipInput).setInputFiles(await zipFile({ 'index.html': 'one' }))
    await page.getByText(words).waitFor()
    await page.getByRole('dialog').getByText('svc push --sign-key <file>', { exact: true }).waitFor()
    t.equal(await page.getByRole('button', { name: 'Deploy', exact: true }).isDisabled(), true, words)
    t.same([...(await survey(page)), ...(await violations(page))], [], words)
  }
})

t.test('the keys of a server that was started with --require-signatures', { skip }, async t => {
  const stage = await startServer(t, { environment: { SVC_REQUIRE_SIGNATURES: '1' } })
  const path = join(stage.home.directory, 'keys/allowed_signers')
  mkdirSync(dirname(path), { recursive: true })
  const line = aKey('ana').row.public.split('\n')[1]
  writeFileSync(path, `ana@laptop ${line}\n`)
  const { page } = await openDuring(t, browser, stage.url, 'access', { viewport: desktop })
  const keys = page.locator('svc-signing-keys')
  await keys.getByText('ana@laptop', { exact: true }).waitFor()
  t.equal(await keys.getByRole('button', { name: 'Trust key' }).count(), 0)
  t.same([...(await survey(page)), ...(await violations(page))], [])
  await photograph(page, 'machine-keys-desktop', { isWhole: true })
  const shop = await stage.createProject('storefront')
  await page.goto(`${stage.url}/projects/${shop.id}`)
  const asked = page.locator('svc-project-deploy .signatures')
  await asked.getByText('Keys that must have signed: 1. The server asks for it').waitFor()
  await asked.getByText('svc push --sign-key ~/.ssh/id_ed25519').waitFor()
  t.match(await page.locator('svc-project-deploy .command').first().textContent(), 'svc push --sign-key')
  await photograph(page, 'machine-deploy-desktop')
  await page.goto(`${stage.url}/access`)
  writeFileSync(path, 'ana what is this\n')
  await page.reload()
  await keys.getByText(/Every release is refused: .*contains no key/).waitFor()
})
