import { shortCommit, type Provenance } from '../model/provenance.js'
import { headlineOf, type Notification } from './events.js'

/** The three shapes a receiver may want (§6.5). */
export type PayloadForm = 'post' | 'markdown' | 'generic'

/** In title and text of every chat message: such services let only messages through that hold an agreed word. */
const keyword = 'svc'
const linkText = 'To this deployment'
/** Of one field in a chat message; the generic form carries all of it. */
const maxChatCharacters = 1000

/** Chat services, by the domain their addresses lie under (decisions §8). */
const chatDomains: ReadonlyArray<readonly [domain: string, form: PayloadForm]> = [
  ['feishu.cn', 'post'],
  ['larksuite.com', 'post'],
  ['dingtalk.com', 'markdown']
]

/** Which form a host gets: a domain and what lies under it, so `notdingtalk.com` is just any host. */
export function formOf(hostname: string): PayloadForm {
  const host = hostname.toLowerCase().replace(/\.$/, '')
  return chatDomains.find(([domain]) => host === domain || host.endsWith(`.${domain}`))?.[1] ?? 'generic'
}

const builders: Record<PayloadForm, (notification: Notification) => unknown> = {
  generic: genericPayload,
  post: postPayload,
  markdown: markdownPayload
}

/** The body of a notification, for JSON. */
export function payloadOf(notification: Notification, form: PayloadForm): unknown {
  return builders[form](notification)
}

function genericPayload({ event, trigger, timestamp, project, deployment, errorMessage, url }: Notification): unknown {
  const { id, name, deployPath } = project
  const { status, duration, startTime, endTime, rollbackOf, message, provenance } = deployment
  return {
    event,
    trigger,
    timestamp,
    project: { id, name, deployPath },
    deployment: { id: deployment.id, status, duration, startTime, endTime, rollbackOf, provenance },
    errorMessage,
    message,
    url
  }
}

/**
 * Chat services answer 200 to what they do not show (a missing keyword, too many messages), with a code in the body: the
 * clause that says so, or null. What a generic receiver answers is its own business.
 */
export function complaintIn(answer: string | null, form: PayloadForm): string | null {
  if (form === 'generic' || answer === null) return null
  try {
    const body = JSON.parse(answer) as { code?: unknown; errcode?: unknown } | null
    const code = body?.errcode ?? body?.code
    return typeof code === 'number' && code !== 0 ? `answered with the error code ${code}` : null
  } catch {
    return null
  }
}

/** A rich-text message: paragraphs of text elements, which are shown as they stand. */
function postPayload(notification: Notification): unknown {
  const { url } = notification
  const content: object[][] = chatLines(notification).map(([name, value]) => [{ tag: 'text', text: `${name}: ${value}` }])
  if (url !== null) content.push([{ tag: 'a', text: linkText, href: url }])
  const first = [{ tag: 'text', text: `${keyword} · ${headlineOf(notification)}` }]
  // One language is enough: it is shown to everybody, and this is the one that every edition knows.
  return { msg_type: 'post', content: { post: { zh_cn: { title: titleOf(notification), content: [first, ...content] } } } }
}

function markdownPayload(notification: Notification): unknown {
  const lines = chatLines(notification).map(([name, value]) => `- **${name}**: ${plain(value)}`)
  const link = notification.url === null ? [] : ['', `[${linkText}](${notification.url})`]
  const text = [`#### ${keyword} · ${plain(headlineOf(notification))}`, '', ...lines, ...link].join('\n')
  return { msgtype: 'markdown', markdown: { title: titleOf(notification), text } }
}

function titleOf(notification: Notification): string {
  return `${keyword} · ${oneLine(headlineOf(notification))}`
}

/** What a person wants to know, name and value; what is unknown is left out. */
function chatLines({ project, deployment, errorMessage, timestamp }: Notification): Array<[name: string, value: string]> {
  const lines: Array<[string, string | null]> = [
    ['Project', `${project.name} (${project.id})`],
    ['Target', project.deployPath],
    ['Deployment', deployment.id],
    ['Rollback to', deployment.rollbackOf],
    ['Message', deployment.message || (deployment.provenance?.subject ?? null)],
    ['Commit', commitLine(deployment.provenance)],
    ['CI run', runLine(deployment.provenance)],
    ['Duration', deployment.duration],
    ['Error', errorMessage],
    ['Time', timestamp]
  ]
  return lines.flatMap(([name, value]) => (value === null || value === '' ? [] : [[name, oneLine(value)]]))
}

/** `1a2b3c4 on main, by Ada`, as the client claims. */
function commitLine(provenance: Provenance | null): string | null {
  if (provenance === null) return null
  const { commit, branch, tag, author } = provenance
  const name = tag ?? branch
  const parts = [commit && shortCommit(commit), name && (commit === null ? name : `on ${name}`)].filter(Boolean).join(' ')
  return parts === '' || author === null ? parts : `${parts}, by ${author}`
}

/** `Drone 42, https://drone.example.org/42`. */
function runLine(provenance: Provenance | null): string | null {
  const { system, run, url } = provenance?.ci ?? { system: null, run: null, url: null }
  if (system === null) return null
  return [[system, run].filter(Boolean).join(' '), url].filter(Boolean).join(', ')
}

function oneLine(text: string): string {
  const line = text.replace(/\s+/g, ' ').trim()
  return line.length > maxChatCharacters ? `${line.slice(0, maxChatCharacters)}…` : line
}

/** What a name or a message says must not become a link, a picture or a tag. */
function plain(text: string): string {
  return oneLine(text).replace(/[\\`*[\]<>]/g, '\\$&')
}
