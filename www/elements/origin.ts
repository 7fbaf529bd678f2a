import type { Provenance } from '../../lib/model/provenance.js'
import { html } from '../dom/html.js'
import type { Template } from '../dom/html.js'
import { t } from '../words/t.js'

/* Where the files of a deployment come from, as its client claims. */

/** The first digits of a commit; the star says that files differed from it. */
export function commitWords({ commit, dirty }: Provenance): string | null {
  return commit === null ? null : `${commit.slice(0, 7)}${dirty === true ? '*' : ''}`
}

/** Commit and tag or branch; null: neither is known. */
export function originOf(provenance: Provenance | null | undefined): Template | null {
  if (provenance === null || provenance === undefined) return null
  const [commit, name] = [commitWords(provenance), provenance.tag ?? provenance.branch]
  if (commit === null && name === null) return null
  return html`
    <span class="origin" translate="no">
      ${commit === null ? null : html`<code title="${commitTitle(provenance)}">${commit}</code>`}
      ${name === null ? null : html`<span class="cut muted" title="${name}">${name}</span>`}
    </span>`
}

/** The whole id, and that files differed from it. */
export function commitTitle({ commit, dirty }: Provenance): string {
  return dirty === true ? t('{commit}, with changes that were not committed', { commit: commit ?? '' }) : (commit ?? '')
}
