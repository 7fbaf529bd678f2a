import t from 'tap'
import { startServer } from '../support/server.js'
import { aKey, signedBy, statementOf } from '../support/signed-releases.js'
import { makeZip } from '../support/make-zip.js'
import { startChromium } from './chromium.js'
import { cardOf, desktop, isWithin, onPhone, openDuring, photographer, saveCard } from './stage.js'
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
