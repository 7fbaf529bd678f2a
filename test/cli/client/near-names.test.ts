import t from 'tap'
import { nearOr, withNearNames } from '../../../lib/cli/client/near-names.js'
import type { Client } from '../../../lib/cli/client/client.js'
import { Refusal } from '../../../lib/base/errors.js'

t.test('nearOr asks for the nearest name, or gives the advice', async t => {
  const cases: Array<[word: string, said: string]> = [
    ['shp', 'Did you mean "shop"?'],
    ['SHOP', 'Did you mean "shop"?'],
    ['nothing', 'see the list']
  ]
  for (const [word, said] of cases) t.equal(nearOr(word, ['shop', 'wiki'], 'see the list'), said, word)
})

/** A client whose every request but the lists is refused with a sentence; `lists` fails, too, if it is a refusal. */
function clientThat(sentence: string, lists: object | Refusal): Client {
  const refuse = async (): Promise<never> => {
    throw new Refusal('not_found', 'not_found', sentence)
  }
  const call = async (route: string): Promise<unknown> => {
    if (!['GET /api/projects', 'GET /api/nodes'].includes(route)) return refuse()
    if (lists instanceof Refusal) throw lists
    return lists
  }
  return withNearNames({
    address: '',
    open: refuse,
    json: refuse,
    ask: refuse,
    call,
    probe: refuse
  } as unknown as Client)
}

t.test('a refusal of an unknown name says what is near, and stays the same otherwise', async t => {
  const projects = [{ id: 'proj_1', name: 'shop' }]
  const notAllowed = new Refusal('forbidden', 'forbidden', 'Permission denied')
  const cases: Array<[sentence: string, lists: object | Refusal, said: string]> = [
    ['Project not found: "shp"', projects, 'Project not found: "shp". Did you mean "shop"?'],
    ['Node not found: "web1"', { nodes: [{ name: 'web-1' }] }, 'Node not found: "web1". Did you mean "web-1"?'],
    ['Deployment not found: "dep_1"', projects, 'Deployment not found: "dep_1"'],
    ['Project not found: "shp"', notAllowed, 'Project not found: "shp"'],
    ['Plan not found: "p". Plan again', projects, 'Plan not found: "p". Plan again']
  ]
  for (const [sentence, lists, said] of cases) {
    const client = clientThat(sentence, lists)
    const expected = { code: 'not_found', kind: 'not_found', message: said }
    await t.rejects(client.call('GET /api/settings'), expected)
    await t.rejects(client.json({ path: '/' }), expected)
    await t.rejects(client.open({ path: '/' }), { message: sentence }, 'as the server says it')
    await t.rejects(client.ask('GET /api/settings', {}), expected)
  }
})
