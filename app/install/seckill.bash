# seckill.bash - bash completion of commands and options.

_seckill()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} words=
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="serve migrate token audit lock deliver webhook erase top cells version --help --version"
    elif [ "$before" = --role ]; then
        words="shopper payment admin auditor"
    else
        case ${COMP_WORDS[1]} in
        serve) words="--help" ;;
        migrate) words="--dry-run --service-role --cell --aggregate --help" ;;
        token) words="--user --role --ttl --count --jti --help" ;;
        lock) words="show list --mine release --help" ;;
        webhook) words="add list log enable disable replay remove --help" ;;
        erase) words="--user --ended --archive --dry-run --help" ;;
        top) words="--url --token-file --every --count --help" ;;
        cells) words="status migrate audit balancer split clean --help" ;;
        audit | deliver | version | --version) words="--help" ;;
        esac
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -F _seckill seckill
