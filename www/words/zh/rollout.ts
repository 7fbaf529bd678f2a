import type { Words } from '../t.js'
import { words as ofFleet } from './fleet.js'

/** Texts of `pages/rollout.ts`. */
export const words: Words = {
  ...ofFleet,
  'Rollout {number} of {project}': '{project} 的发布 {number}',
  'Rollout not found': '找不到该发布',
  'Go to rollouts': '前往发布记录',
  Tree: '文件树',
  Started: '开始于',
  'Nodes that need attention': '需要关注的节点',
  Waves: '批次',
  'Policy of this rollout': '本次发布的策略',
  'Waves and their nodes': '批次及其节点',
  'Wave {wave}': '第 {wave} 批',
  'No nodes': '没有节点',
  current: '当前',
  'Begin wave {wave} now': '立即开始第 {wave} 批',
  'Approve wave {wave}': '批准第 {wave} 批',
  'Resume…': '继续…',
  'Revert wave {wave}…': '恢复第 {wave} 批…',
  'Revert all…': '全部恢复…',
  'Resume the rollout?': '继续发布？',
  'Revert wave {wave}?': '恢复第 {wave} 批？',
  'Revert {project} on all nodes?': '在所有节点上恢复 {project}？',
  'Nodes that failed or went back try again, and the waves go on. Nodes that do not answer are skipped, and get the release when they are back.':
    '失败或已恢复的节点会重试，各批次继续进行。没有应答的节点会被跳过，恢复联系后再得到该版本。',
  Resume: '继续',
  'The nodes of this wave get back exactly the files that they had before. Earlier waves keep the release.':
    '该批次的节点会完全恢复之前的文件。更早的批次保留新版本。',
  'Revert wave {wave}': '恢复第 {wave} 批',
  'Every node that has the release gets back exactly the files that it had before.':
    '所有已有该版本的节点都会完全恢复之前的文件。',
  'Revert all': '全部恢复',
  'All {count} nodes fetch and check. Nothing is changed yet.': '全部 {count} 个节点正在获取和检查，尚未更改任何内容。',
  'Wave {wave} of {waves} begins in {time}': '第 {wave} / {waves} 批将在 {time}后开始',
  'Wave {wave} of {waves} is next': '接下来是第 {wave} / {waves} 批',
  'Wave {wave} of {waves}': '第 {wave} / {waves} 批',
  'No node was changed': '没有更改任何节点',
  'Failed step': '失败的步骤',
  'The node did not answer, so what it did is not known.': '节点没有应答，因此不知道它做了什么。',
  'The node sent no output.': '节点没有发送输出。',
  'End of the output': '输出的末尾',
  'Open node': '打开节点',
  'A later rollout took its place:': '已被之后的发布取代：'
}
