import { distanceWords } from '../../base/shared/distance.js'
import { oneLine } from '../../base/text.js'
import type { Family, FamilyMember } from '../../model/family.js'
import { originWords } from './deployments.js'
import type { Output } from './output.js'
import { humanDuration, relativeTime } from './words.js'

/** First digits of a tree, enough to tell trees apart. */
const treeDigits = 8

/** Prints which release is in place in each project of an application, and how far it is from the first environment. */
export function printMatrix(output: Output, families: readonly Family[], nowMs: number): void {
  if (families.length === 0) {
    output.note(
      'No two projects are of one application. Those are: shop and shop-staging, or both with the tag app:shop.'
    )
    return
  }
  const rows = families.flatMap(({ name, members }) => {
    const first = members.find(({ release }) => release !== null)
    return members.map((member, at) => ({ family: at === 0 ? name : '', member, first }))
  })
  output.table(rows, [
    { header: 'APPLICATION', cell: ({ family }) => family, shrinkTo: 8, drop: 'last' },
    { header: 'ENV', cell: ({ member }) => member.env, shrinkTo: 10 },
    { header: 'PROJECT', cell: ({ member }) => member.projectName, shrinkTo: 24 },
    { header: 'RELEASE', cell: ({ member }) => releaseWords(member), shrinkTo: 10 },
    { header: 'TREE', cell: ({ member }) => member.release?.treeSha256?.slice(0, treeDigits) ?? '', drop: 'first' },
    { header: 'SINCE', cell: ({ member }) => relativeTime(member.release?.since ?? null, nowMs), drop: 'last' },
    { header: 'DIFFERENCE', cell: ({ member, first }) => differenceOf(member, first), shrinkTo: 10 }
  ])
  const next = promotionOf(families)
  if (next !== null) output.note(`Next: svc promote ${oneLine(next.from)} ${oneLine(next.to)}`)
}

function releaseWords({ release, nodes }: FamilyMember): string {
  if (release === null) return 'nothing in place'
  const words = release.message || release.provenance?.subject || originWords(release.provenance) || release.id
  return nodes === null ? words : `${words} (${nodes.have} of ${nodes.all} nodes)`
}

function differenceOf(member: FamilyMember, first: FamilyMember | undefined): string {
  const found = first === undefined ? null : distanceWords(member, first)
  if (found === null) return ''
  const { words, count, apartMs } = found
  return words
    .replace('{count}', String(count))
    .replace('{time}', humanDuration(apartMs ?? 0))
    .replace('{env}', () => first?.env ?? '')
}

/** Returns the first promotion that would change something, if there is only one. */
function promotionOf(families: readonly Family[]): { from: string; to: string } | null {
  const found = families.flatMap(({ members }) =>
    members.flatMap(({ projectName, release, promotesTo }) =>
      members
        .filter(({ projectId }) => release?.isPromotable === true && promotesTo.includes(projectId))
        .filter(other => other.release?.treeSha256 !== release?.treeSha256)
        .map(other => ({ from: projectName, to: other.projectName }))
    )
  )
  return found.length === 1 ? (found[0] ?? null) : null
}
