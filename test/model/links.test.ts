import t from 'tap'
import { deploymentPage, tokensPage } from '../../lib/model/links.js'

t.test('returns the page of a deployment below the public address, and null without an address', async t => {
  t.equal(deploymentPage('https://deploy.example/svc', 'dep_a'), 'https://deploy.example/svc/deployments/dep_a')
  t.equal(deploymentPage('https://deploy.example', 'a/b'), 'https://deploy.example/deployments/a%2Fb')
  t.equal(deploymentPage(null, 'dep_a'), null)
})

t.test('returns the page of the tokens, and null without an address', async t => {
  t.equal(tokensPage('https://deploy.example/svc'), 'https://deploy.example/svc/settings')
  t.equal(tokensPage(null), null)
})
