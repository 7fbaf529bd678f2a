import t from 'tap'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { askForOwnNames, exposureFinding } from '../../../lib/cli/doctor/exposure.js'

/** A site that answers with the status that `statusOf` returns for a path. Returns its address and the asked paths. */
async function startSite(t: Test, statusOf: (path: string) => number): Promise<{ url: string; asked: string[] }> {
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url as string)
    response.writeHead(statusOf(request.url as string)).end()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked }
}

const options = { hosts: [], signal: new AbortController().signal }

t.test('only a difference between own names and another missing name proves a rule', async t => {
  const cases: Array<[own: number[], other: number, result: string]> = [
    [[403, 403], 404, 'pass'],
    [[404, 404], 200, 'pass'],
    [[410, 404], 302, 'pass'],
    [[404, 404], 404, 'warning'],
    [[403, 403], 403, 'warning'],
    [[200, 200], 200, 'warning'],
    [[403, 404], 404, 'warning'],
    [[401, 401], 404, 'warning'],
    [[503, 503], 503, 'warning'],
    [[200, 200], 404, 'warning']
  ]
  for (const [own, other, result] of cases) {
    const answers = own.map(status => ({ status, body: '' }))
    const found = exposureFinding('http://a/', answers, { status: other, body: '' })
    t.equal(found.result, result, `${own} ${other}`)
    t.equal(found.advice === null, result === 'pass')
  }
})

t.test('a site is asked below its path, for names that nobody can guess', async t => {
  const { url, asked } = await startSite(t, path => (path.includes('/.svc-') ? 403 : 404))
  t.match(await askForOwnNames(`${url}/shop?a=1#b`, options), { result: 'pass', advice: null })
  await askForOwnNames(`${url}/shop/`, options)
  const pattern = /^\/shop\/(svc-none-|\.svc-staging-|\.svc-displaced-)([0-9a-f]{16})\/a$/
  const found = asked.map(path => pattern.exec(path))
  t.same(
    found.map(match => match?.[1]),
    ['svc-none-', '.svc-staging-', '.svc-displaced-', 'svc-none-', '.svc-staging-', '.svc-displaced-']
  )
  t.equal(new Set(found.map(match => match?.[2])).size, 2)
})

t.test('a rule for one of the names only is not enough', async t => {
  const { url } = await startSite(t, path => (path.includes('/.svc-staging-') ? 403 : 404))
  t.match(await askForOwnNames(url, options), { result: 'warning', detail: /403 and 404/, advice: /maintenance\.md/ })
})

t.test('other hosts are not asked, and a silent one is a warning', async t => {
  const foreign = await askForOwnNames('http://192.0.2.1/', options)
  t.match(foreign, { result: 'warning', detail: /not checked: .*gate_hosts/, advice: /gate_hosts/ })
  t.match(await askForOwnNames('http://127.0.0.1:1/', options), { result: 'warning', detail: /connection refused/ })
})
