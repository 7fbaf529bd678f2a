import t from 'tap'
import type { Test } from 'tap'
import { startServer, type Stage } from '../support/server.js'
import { zipOf } from '../support/zip.js'
import { startChromium } from './chromium.js'
import { desktop, onPhone, openDuring, photographer } from './stage.js'
import { survey } from './survey.js'

/*
 * Where deployments come from, in a real browser: the list and its filters, the page of one, and the way back with a
 * reason. With PICTURES=1 in the environment pictures are left in dist/screens.
 */

const { browser, skip } = await startChromium(t)
const photograph = photographer('origin')

const open = (t: Test, stage: { url: string }, path: string, options = {}) =>
  openDuring(t, browser, stage.url, path, { viewport: desktop, ...options })

const commit = (digit: string): string => digit.repeat(40)
const claims: Array<[message: string, claim: object | null]> = [
  ['', null],
  ['Sent by hand', { source: 'panel', by: 'admin' }],
  [
    '',
    {
      commit: commit('a'),
      branch: 'main',
      author: 'Ada Lovelace',
      subject: 'Lower the prices',
      dirty: true,
      repository: 'https://github.com/team/shop.git',
      ci: { system: 'GitHub Actions', run: '42', url: 'https://github.com/team/shop/actions/runs/9000', actor: 'grace' }
    }
  ],
  [
    'A long message that says what this deployment is about, and does not end before its line does, on any screen of this world',
    {
      commit: commit('b'),
      branch: `feature/${'a-branch-with-a-very-long-name-'.repeat(6)}`,
      tag: null,
      author: '<b>Ada</b>',
      subject: '<img src=x onerror=alert(1)>',
      repository: 'git@git.test:team/shop.git',
      ci: { system: 'Jenkins', run: '7', url: null, actor: null }
    }
  ]
]

async function prepared(t: Test): Promise<{ stage: Stage; projectId: string; ids: string[] }> {
  const stage = await startServer(t)
  const project = await stage.createProject('storefront')
  const ids: string[] = []
  for (const [index, [message, claim]] of claims.entries()) {
    const { headers } = await stage
      .as(project.token)
      .upload([
        ['projectId', project.id],
        ['message', message],
        ...(claim === null ? [] : [['provenance', JSON.stringify(claim)] as [string, string]]),
        [
          'file',
          { filename: 'site.zip', bytes: await zipOf({ 'index.html': `version ${index}`, [`only-${index}.txt`]: 'x' }) }
        ]
      ])
    ids.push(String(headers['x-svc-deploy-id']))
  }
  return { stage, projectId: project.id, ids }
}

t.test('the list leads with message and commit, and is filtered by branch and commit', { skip }, async t => {
  const { stage } = await prepared(t)
  const { page, watch } = await open(t, stage, 'deployments')
  const row = page.locator('svc-deployments a')
  await row.first().waitFor()
  t.match(await row.nth(0).textContent(), /A long message[^]*bbbbbbb[^]*feature\/[^]*storefront/)
  t.match(await row.nth(1).textContent(), /Lower the prices[^]*aaaaaaa\*[^]*main[^]*storefront/)
  t.match(await row.nth(2).textContent(), /Sent by hand/)
  t.match(await row.nth(3).textContent(), /Pushed/)
  await photograph(page, 'list-desktop')
  t.same(await survey(page), [])

  await page.getByLabel('Branch').fill('main')
  await page.getByLabel('Branch').press('Enter')
  await page.getByText('1 deployment', { exact: true }).waitFor()
  t.match(page.url(), /\?branch=main$/)
  t.match(await row.textContent(), /Lower the prices/)
  await page.getByLabel('Branch').fill('')
  await page.getByLabel('Branch').press('Enter')
  await page.getByText('4 deployments').waitFor()
  await page.getByLabel('Commit').fill('BBBBB')
  await page.getByLabel('Commit').press('Enter')
  await page.getByText('1 deployment', { exact: true }).waitFor()
  t.match(await row.textContent(), /A long message/)
  await page.getByLabel('Commit').fill('xyz')
  await page.getByLabel('Commit').press('Enter')
  t.equal(
    await page.getByLabel('Commit').evaluate('(input => input.validationMessage)(document.activeElement)'),
    'Enter at least 4 digits of the commit ID (0–9, a–f)'
  )
  t.match(page.url(), /\?commit=BBBBB$/, 'nothing is asked for that the server would refuse')
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])

  const small = await open(t, stage, 'deployments', onPhone)
  await small.page.locator('svc-deployments a').first().waitFor()
  await photograph(small.page, 'list-phone')
  t.same(await survey(small.page), [])
})

t.test('the page shows the origin and the target of a deployment', { skip }, async t => {
  const { stage, ids, projectId } = await prepared(t)
  const { page, watch } = await open(t, stage, `deployments/${ids[2]}`)
  await page.getByRole('heading', { level: 1, name: 'Lower the prices' }).waitFor()
  const head = page.locator('.page-head')
  await head.getByText(`${stage.sites}/storefront`).waitFor()
  t.match(
    await head.textContent(),
    /aaaaaaa\*[^]*main[^]*by Ada Lovelace[^]*Success[^]*Project[^]*storefront[^]*Started[^]*Target/
  )
  t.equal(await head.locator('.lead a').getAttribute('href'), `https://github.com/team/shop/commit/${commit('a')}`)
  t.match(await head.locator('.lead a').getAttribute('rel'), /noopener noreferrer/)
  const run = page.getByRole('link', { name: 'GitHub Actions 42' })
  t.equal(await run.getAttribute('href'), 'https://github.com/team/shop/actions/runs/9000')
  await page.getByText('Reported by the client. svc has not verified it.').waitFor()
  await page.getByText('uncommitted changes').waitFor()
  await photograph(page, 'page-desktop')
  t.same(await survey(page), [])
  await page.locator('.details').getByRole('link', { name: 'main', exact: true }).click()
  await page.getByText('1 deployment', { exact: true }).waitFor()
  t.match(page.url(), new RegExp(`\\?project=${projectId}&branch=main$`))

  await page.goto(`${stage.url}/deployments/${ids[3]}`)
  await page.getByRole('heading', { level: 1, name: /^A long message/ }).waitFor()
  t.equal(await page.locator('.lead a').count(), 0, 'nobody has said where git.test shows commits')
  await page.getByText('<b>Ada</b>').first().waitFor()
  await photograph(page, 'long-desktop')
  t.same(await survey(page), [])
  await page.goto(`${stage.url}/deployments/${ids[1]}`)
  await page.getByText('admin, from the panel').waitFor()
  t.same(watch.complaints, [])
  t.same(watch.foreign, [])

  const small = await open(t, stage, `deployments/${ids[3]}`, onPhone)
  await small.page.getByRole('heading', { level: 1, name: /^A long message/ }).waitFor()
  await photograph(small.page, 'long-phone')
  t.same(await survey(small.page), [])
})

t.test('a rollback asks: which version, of how many files, to which target, and why', { skip }, async t => {
  const { stage, ids } = await prepared(t)
  const { page, watch } = await open(t, stage, `deployments/${ids[2]}`)
  await page.getByRole('button', { name: 'Roll back to this…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText(`${stage.sites}/storefront`).waitFor()
  await dialog.getByText('~ index.html').waitFor()
  const asked = await dialog.textContent()
  t.match(
    asked,
    /Roll back storefront\?[^]*Version[^]*Lower the prices[^]*Commit[^]*aaaaaaa\*[^]*Files\s*2[^]*Archive[^]*\d+ B[^]*Project[^]*storefront \(production\)[^]*Target/
  )
  await photograph(page, 'rollback-desktop')
  t.same(await survey(page), [])
  await dialog.getByLabel('Reason (optional)').fill('The prices were wrong')
  await dialog.getByRole('button', { name: 'Roll back', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'The prices were wrong' }).waitFor()
  await page.locator('.verdict svc-status[state=success]').waitFor()
  await page.getByRole('link', { name: 'rolled back to an earlier deployment' }).waitFor()
  t.match(
    await page.locator('.lead').textContent(),
    /aaaaaaa\*[^]*main/,
    'it has the commit of the version it went back to'
  )
  const { body } = await stage.client.get('/api/logs?limit=1')
  t.match(body, [{ message: 'The prices were wrong', rollbackOf: ids[2], provenance: { branch: 'main' } }])

  await page.goto(`${stage.url}/deployments/${ids[2]}`)
  await page.getByRole('button', { name: 'Roll back to this…' }).click()
  await dialog.getByRole('button', { name: 'Roll back', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Rollback: Lower the prices' }).waitFor()
  t.same(watch.complaints, [])

  const small = await open(t, stage, `deployments/${ids[2]}`, { ...onPhone, locale: 'zh-CN' })
  await small.page.getByRole('button', { name: '回滚到此部署…' }).click()
  await small.page.getByRole('dialog').getByText(`${stage.sites}/storefront`).waitFor()
  await photograph(small.page, 'rollback-phone-zh')
  t.same(await survey(small.page), [])
  await small.page.goto(`${stage.url}/deployments`)
  await small.page.locator('svc-deployments a').first().waitFor()
  await photograph(small.page, 'list-phone-zh')
  t.same(await survey(small.page), [])
  const wide = await open(t, stage, `deployments/${ids[2]}`, { locale: 'zh-CN' })
  await wide.page.getByText('来源').first().waitFor()
  await photograph(wide.page, 'page-desktop-zh')
})
