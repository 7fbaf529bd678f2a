import t from 'tap'
import { actorWords, serverWords, addWords, setLanguage } from '../../../www/words/t.js'
import { words } from '../../../www/words/zh/server.js'

t.test('who acted is named as in the texts of the server, in the language of the user', async t => {
  const nameOf = (id: string): string | undefined => (id === 'proj_a' ? 'shop' : undefined)
  const cases: Array<[actor: string, english: string, chinese: string]> = [
    ['admin', 'admin', '管理员'],
    ['system', 'svc', 'svc 自身'],
    ['local', 'the operator on the machine', '本机操作者'],
    ['anonymous', 'anonymous', '未知来源'],
    ['project:proj_a', 'the deploy token of shop', 'shop 的部署令牌'],
    ['project:proj_gone', 'the deploy token of proj_gone', 'proj_gone 的部署令牌'],
    ['node:web-1', 'node web-1', '节点 web-1'],
    ['hub:b', 'hub b', '中枢 b'],
    ['token:ben', 'ben', 'ben'],
    ['token:command', 'command', 'command'],
    ['token:admin', 'the token "admin"', '令牌“admin”']
  ]
  for (const [actor, english] of cases) t.equal(actorWords(actor, nameOf), english, actor)
  setLanguage('zh')
  addWords(words)
  for (const [actor, , chinese] of cases) t.equal(actorWords(actor, nameOf), chinese, actor)
})

t.test('findings about projects on nodes are whole sentences', async t => {
  for (const nodes of ['1 node', '4 nodes'])
    t.match(serverWords(`"kiosk" is deployed on ${nodes}, not here`), /^“kiosk”部署在 \d 个节点上，不在此处\n/)
})
