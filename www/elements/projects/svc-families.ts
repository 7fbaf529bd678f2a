import type { Family, FamilyMember, FamilyRelease } from '../../../lib/model/family.js'
import type { Marks } from '../../../lib/model/marks.js'
import { distanceWords } from '../../shared/distance.js'
import { panelPath } from '../../dom/address.js'
import { html, icon, keyed, type Template } from '../../dom/html.js'
import { serverNow } from '../../server/client.js'
import { may } from '../../state/session.js'
import { numberWords, t } from '../../words/t.js'
import { css, SvcElement } from '../element.js'
import { originOf } from '../base/facts.js'
import { deploymentWords, projectMarks, shortTree, spanWords } from '../base/words.js'

/** Families that are shown before the reader asks for more. */
const shownFirst = 20

/** How a release differs from the one in the first environment, as shape, words and tone. */
interface Difference {
  picture: 'check' | 'warning'
  words: string
}

/** Returns how a member differs from the first one that has a release; null: it is the first, or cannot be compared. Pure. */
export function differenceOf(member: FamilyMember, first: FamilyMember): Difference | null {
  const found = distanceWords(member, first)
  if (found === null) return null
  const { isSame, words, count, apartMs } = found
  const values = { env: first.env, count: numberWords(count ?? 0), time: spanWords(apartMs ?? 0) }
  return { picture: isSame ? 'check' : 'warning', words: t(words, values) }
}

/**
 * The projects of each application side by side: which release is where, since when, how far it is from the first
 * environment, and a link to promote it. Properties: `items`, `marks`.
 */
export class SvcFamilies extends SvcElement {
  static override sheet = css`
    svc-families {
      display: grid;
      grid-template-columns: minmax(0, 1fr);
      gap: 24px;
      margin-top: 12px;

      section { display: grid; grid-template-columns: minmax(0, 1fr); gap: 8px; }
      h2 { overflow-wrap: anywhere; }
      ul { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(220px, 100%), 1fr)); overflow: hidden; }
      li {
        display: grid;
        grid-template-columns: minmax(0, 1fr);
        align-content: start;
        gap: 4px;
        padding: 14px 16px;
        /* Lines between cells, whichever way they wrap. */
        box-shadow: -1px -1px 0 var(--line);
        font-size: var(--size-13);
      }
      .env { color: var(--muted); font-weight: 500; }
      .env a { color: var(--text); font-size: var(--size-14); overflow-wrap: anywhere; }
      .what { display: -webkit-box; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 2; overflow-wrap: anywhere; }
      .origin { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 10px; min-width: 0; }
      .difference { display: flex; gap: 6px; color: var(--warning); font-weight: 500; overflow-wrap: anywhere; }
      .difference.check { color: var(--success); }
      .difference .icon { flex: none; margin-top: 2px; }
      .marks { display: flex; flex-wrap: wrap; gap: 4px; }
      .next { display: flex; flex-wrap: wrap; gap: 8px; margin-top: 4px; }
      .next a { max-width: 100%; overflow-wrap: anywhere; }
    }
  `

  items: readonly Family[] = []
  marks: Pick<Marks, 'waiting' | 'locks'> = { waiting: [], locks: [] }
  #areAllShown = false

  protected override view(): Template {
    const shown = this.#areAllShown ? this.items : this.items.slice(0, shownFirst)
    const count = numberWords(this.items.length - shown.length)
    return html`
      ${shown.map(family => keyed(family.members[0]?.projectId ?? '', this.#family(family)))}
      ${
        shown.length === this.items.length
          ? null
          : html`<div class="actions"><button type="button" @click="${() => this.#showAll()}">${t('Show {count} more', { count })}</button></div>`
      }`
  }

  #showAll(): void {
    this.#areAllShown = true
    this.update()
    queueMicrotask(() => this.querySelectorAll('section')[shownFirst]?.querySelector('a')?.focus())
  }

  #family({ name, members }: Family): Template {
    const first = members.find(({ release }) => release !== null)
    return html`
      <section>
        <h2 translate="no">${name}</h2>
        <ul class="card">${members.map(member => keyed(member.projectId, this.#member(member, { first, members })))}</ul>
      </section>`
  }

  #member(
    member: FamilyMember,
    { first, members }: { first: FamilyMember | undefined; members: readonly FamilyMember[] }
  ): Template {
    const { projectId, projectName, env, release, nodes } = member
    const marks = projectMarks(projectId, this.marks, serverNow())
    const difference = first === undefined ? null : differenceOf(member, first)
    return html`
      <li>
        <p class="env"><span translate="no">${env}</span> · <a href="projects/${projectId}" translate="no">${projectName}</a></p>
        ${release === null ? html`<p class="muted">${t('Nothing in place')}</p>` : releaseLines(release)}
        ${nodes === null ? null : html`<p class="muted">${t('on {count} of {all} nodes', { count: numberWords(nodes.have), all: numberWords(nodes.all) })}</p>`}
        ${difference === null ? null : html`<p class="${`difference ${difference.picture}`}">${icon(difference.picture)}<span>${difference.words}</span></p>`}
        ${marks.length === 0 ? null : html`<p class="marks">${marks.map(words => html`<svc-marked words="${words}"></svc-marked>`)}</p>`}
        ${promotions(member, members)}
      </li>`
  }
}

function releaseLines(release: FamilyRelease): Template {
  const { id, since, treeSha256 } = release
  const words = deploymentWords(release)
  return html`
    <a class="what" href="deployments/${id}" title="${words}" translate="no">${words}</a>
    <p class="origin">${originOf(release.provenance)}${treeSha256 === null ? null : html`<code class="muted" title="${treeSha256}" translate="no">${shortTree(treeSha256)}</code>`}</p>
    <p class="muted">${t('since')} <svc-time at="${since}"></svc-time></p>`
}

/** Returns links to the dialog that promotes a release to the projects that get it next and have another one. */
function promotions({ release, promotesTo }: FamilyMember, members: readonly FamilyMember[]): Template | null {
  if (release === null || !release.isPromotable || !may('promote')) return null
  const next = members.filter(
    other => promotesTo.includes(other.projectId) && other.release?.treeSha256 !== release.treeSha256
  )
  if (next.length === 0) return null
  return html`
    <p class="next">
      ${next.map(
        ({ projectId, env, projectName }) => html`
        <a class="button" href="${panelPath`deployments/${release.id}?do=promote&to=${projectId}`}">
          ${t('Promote to {env}…', { env: next.length === 1 ? env : projectName })}
        </a>`
      )}
    </p>`
}

/** The elements that a page registers for families. */
export const elements = { 'svc-families': SvcFamilies }
